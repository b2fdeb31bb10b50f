/* Functions for the packet sockets (packet(7)) of net_af_packet. They count packets that the kernel dropped
 * because a ring was full, which DPDK 22.11 does not count, and filter packets. */
#ifndef ACAPELLA_PACKET_SOCKETS_H
#define ACAPELLA_PACKET_SOCKETS_H

#include <stdint.h>

#define PACKET_SOCKETS_MAX 16

struct packet_sockets {
    int fd[PACKET_SOCKETS_MAX]; /* not owned */
    unsigned count;
    uint64_t dropped; /* as of the latest packet_sockets_count */
};

/* Finds the packet sockets of this process that are bound to an interface: DPDK does not return those of its
 * devices. */
void packet_sockets_find(struct packet_sockets *sockets, const char *interface);

/* Makes the sockets ignore packets that this machine sends on the interface. Packets that are already in
 * their rings remain there. Returns 0 or an errno. */
int packet_sockets_ignore_outgoing(const struct packet_sockets *sockets);

/* Updates `dropped`. */
void packet_sockets_count(struct packet_sockets *sockets);

#endif
