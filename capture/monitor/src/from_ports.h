/* Counts the packets that arrive at DPDK ports, each with its own thread. */
#ifndef ACAPELLA_FROM_PORTS_H
#define ACAPELLA_FROM_PORTS_H

#include "common/clock_watch.h"
#include "common/packet_sockets.h"
#include "common/ports/receive_port.h"
#include "count/monitor.h"
#include "options.h"

struct receiver {
    struct receive_port port;
    struct monitor *monitor;
    const struct options *options;
    struct packet_sockets sockets;
    uint8_t *joined; /* buffer to join the segments of packets */
    uint32_t joined_bytes;
    _Atomic bool *stop;
    _Atomic uint64_t idle_ns; /* since the last packet */
    uint64_t missed;          /* packets missed by the device, or because no mbuf was free */
    uint64_t kernel_dropped;  /* because the ring of net_af_packet was full */
    struct clock_watch clock; /* of the system clock */
    int64_t checked_ns;       /* time of the port at the latest reading of `clock` */
    int64_t stepped_from_ns;  /* arrivals before this time precede the first step of the clock */
};

/* Receives and counts a burst of up to MONITOR_BURST packets. Returns their number. */
unsigned receiver_burst(struct receiver *receiver);

/* Thread of a port; the argument is its receiver. */
int receiver_run(void *argument);

/* Receives until a signal, the end of the duration, or the idle timeout. The caller calls rte_eal_cleanup.
 * Returns 0, or -1 with the reason in fault. */
int monitor_ports(struct receiver *receiver, unsigned ports, struct fault *fault);

#endif
