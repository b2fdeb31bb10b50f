/* DPDK: the environment, the port that is captured from, and where its frames get their time. */
#ifndef ACAPELLA_PORT_H
#define ACAPELLA_PORT_H

#include <net/if.h>
#include <rte_ethdev.h>
#include <rte_mbuf_dyn.h>

#include "options.h"
#include "port/clock.h"

enum stamp_source {
    STAMP_TSC,    /* read as a frame is taken from its queue */
    STAMP_DEVICE, /* in the mbuf, us or ns since 1970: net_pcap passes on what its file says */
    STAMP_NIC,    /* in the mbuf, ticks of the NIC's clock, which rte_eth_read_clock reads too */
};

struct port {
    uint16_t id;
    unsigned queues, depth;
    char name[RTE_ETH_NAME_MAX_LEN];
    char driver[64];
    char interface[IF_NAMESIZE]; /* of the kernel; empty: none */
    bool rss, started;
    uint64_t flushed; /* frames that were there before the capture began, and are no part of it */
    enum stamp_source source;
    int stamp_offset;
    uint64_t stamp_flag;
    struct clock tsc, nic;
    double tsc_hz, nic_hz;
};

/* Starts EAL with a thread for each queue beside the main one. */
int port_environment(const struct options *options, struct fault *fault);

/* Finds the port and sets it up: queues, RSS, memory, stamps; not yet receiving. */
int port_open(struct port *port, const struct options *options, struct fault *fault);
int port_start(struct port *port, struct fault *fault);
/* Takes away what an interface's queues gathered while they were set up: its stamps would be those of the
 * start. */
void port_flush(struct port *port);
void port_close(struct port *port);

/* Main thread, ten times a second. */
void port_discipline(struct port *port);

static inline uint64_t port_now(struct port *port) { return (uint64_t)clock_ns(&port->tsc, rte_rdtsc()); }

/* One stamp a frame. `unstamped` is counted where the device left it to the TSC. */
static inline uint64_t port_stamp(struct port *port, struct rte_mbuf *mbuf, bool *unstamped) {
    if (port->source == STAMP_TSC) {
        return port_now(port);
    }
    if (!(mbuf->ol_flags & port->stamp_flag)) {
        *unstamped = true;
        return port_now(port);
    }
    const uint64_t stamp = *RTE_MBUF_DYNFIELD(mbuf, port->stamp_offset, rte_mbuf_timestamp_t *);
    if (port->source == STAMP_NIC) {
        return (uint64_t)clock_ns(&port->nic, stamp);
    }
    const uint64_t no_us_before_5138 = 100000000000000000ULL; /* where a later net_pcap gives ns */
    return stamp < no_us_before_5138 ? stamp * 1000 : stamp;
}

#endif
