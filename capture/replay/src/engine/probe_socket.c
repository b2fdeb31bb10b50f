#include "engine/probe_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Sets the options before the socket is bound: until then it receives nothing. */
static int prepare(int fd, const char *interface) {
    const int on = 1, index = (int)if_nametoindex(interface);
    const struct sockaddr_ll address = {
        .sll_family = AF_PACKET, .sll_protocol = htons(PROBE_ETHERTYPE), .sll_ifindex = index};
    const struct packet_mreq promiscuous = {.mr_ifindex = index, .mr_type = PACKET_MR_PROMISC};
    if (index == 0 || setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) != 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous) != 0) {
        return -1;
    }
    return bind(fd, (const struct sockaddr *)&address, sizeof address);
}

int probe_socket_open(const char *interface, struct fault *fault) {
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0); /* 0: receives nothing before bind */
    if (fd < 0 || prepare(fd, interface) != 0) {
        fail(fault, "--measure-lead: no socket on %s: %s", interface, strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    return fd;
}

size_t probe_socket_receive(int fd, void *bytes, size_t size, int64_t *ns) {
    union {
        struct cmsghdr header; /* for its alignment */
        char bytes[CMSG_SPACE(sizeof(struct timespec))];
    } control;
    struct iovec part = {bytes, size};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    const ssize_t received = recvmsg(fd, &message, MSG_DONTWAIT);
    for (struct cmsghdr *cmsg = received > 0 ? CMSG_FIRSTHDR(&message) : NULL; cmsg;
         cmsg = CMSG_NXTHDR(&message, cmsg)) {
        if (cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec at;
            memcpy(&at, CMSG_DATA(cmsg), sizeof at);
            *ns = (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
            return (size_t)received;
        }
    }
    return 0;
}
