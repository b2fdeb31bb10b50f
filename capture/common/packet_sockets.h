/* Counts packets that the kernel dropped because the ring of a packet socket (packet(7)) was full.
 * net_af_packet of DPDK 22.11 does not count them. */
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

/* Updates `dropped`. */
void packet_sockets_count(struct packet_sockets *sockets);

#endif
