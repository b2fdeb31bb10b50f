#include "common/packet_sockets.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>

static bool is_packet_socket(int fd, unsigned interface) {
    int domain = 0;
    socklen_t size = sizeof domain;
    struct sockaddr_ll bound = {0};
    socklen_t bound_size = sizeof bound;
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_PACKET &&
           getsockname(fd, (struct sockaddr *)&bound, &bound_size) == 0 &&
           bound.sll_ifindex == (int)interface;
}

void packet_sockets_find(struct packet_sockets *sockets, const char *interface) {
    const unsigned index = *interface ? if_nametoindex(interface) : 0;
    DIR *descriptors = index ? opendir("/proc/self/fd") : NULL;
    for (const struct dirent *entry; descriptors && (entry = readdir(descriptors));) {
        const int fd = (int)strtol(entry->d_name, NULL, 10);
        if (*entry->d_name != '.' && sockets->count < PACKET_SOCKETS_MAX && is_packet_socket(fd, index)) {
            sockets->fd[sockets->count++] = fd;
        }
    }
    if (descriptors) {
        closedir(descriptors);
    }
}

int packet_sockets_ignore_outgoing(const struct packet_sockets *sockets) {
    /* PACKET_IGNORE_OUTGOING has no effect on the sockets of a fanout group */
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    const struct sock_fprog filter = {.len = sizeof code / sizeof *code, .filter = code};
    for (unsigned i = 0; i < sockets->count; ++i) {
        if (setsockopt(sockets->fd[i], SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0) {
            return errno;
        }
    }
    return 0;
}

void packet_sockets_count(struct packet_sockets *sockets) {
    for (unsigned i = 0; i < sockets->count; ++i) {
        struct tpacket_stats stats = {0}; /* since the previous call */
        socklen_t size = sizeof stats;
        if (getsockopt(sockets->fd[i], SOL_PACKET, PACKET_STATISTICS, &stats, &size) == 0) {
            sockets->dropped += stats.tp_drops;
        }
    }
}
