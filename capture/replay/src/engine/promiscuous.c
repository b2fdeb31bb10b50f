#include "engine/promiscuous.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <rte_ethdev.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* These drivers set a flag of the interface. It would remain after SIGKILL, and the user may have set it,
 * too. Therefore a packet socket requests promiscuous mode: the kernel counts these requests, and ends them
 * with the process. */
static bool sets_flag(const struct port *port) {
    return strcmp(port->driver, "net_af_packet") == 0 || strcmp(port->driver, "net_af_xdp") == 0;
}

static int open_membership(const char *interface) {
    const struct packet_mreq membership = {.mr_ifindex = (int)if_nametoindex(interface),
                                           .mr_type = PACKET_MR_PROMISC};
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0); /* 0: receives nothing */
    if (fd >= 0 && setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &membership, sizeof membership) != 0) {
        const int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

int promiscuous_begin(struct port *port, struct fault *fault) {
    if (port->promiscuous) {
        return 0;
    }
    port->promiscuous_socket = sets_flag(port) ? open_membership(port->interface) : -1;
    if (sets_flag(port) && port->promiscuous_socket < 0) {
        return fail(fault, "%s: %s cannot receive frames for other addresses: %s", port->name,
                    port->interface, strerror(errno));
    }
    if (!sets_flag(port)) {
        rte_eth_promiscuous_enable(port->id); /* if unsupported, the driver receives every frame anyway */
    }
    port->promiscuous = true;
    return 0;
}

void promiscuous_end(struct port *port) {
    if (!port->promiscuous) {
        return;
    }
    if (sets_flag(port)) {
        close(port->promiscuous_socket);
    } else {
        rte_eth_promiscuous_disable(port->id);
    }
    port->promiscuous = false;
}
