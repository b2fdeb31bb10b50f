/* A DPDK port that receives, and the source of timestamps. */
#ifndef ACAPELLA_RECEIVE_PORT_H
#define ACAPELLA_RECEIVE_PORT_H

#include <net/if.h>
#include <rte_ethdev.h>
#include <rte_mbuf_dyn.h>

#include "common/clock.h"
#include "common/fault.h"

enum clock_choice { CLOCK_AUTO, CLOCK_HARDWARE, CLOCK_TSC };

struct port_settings {
    const char *device; /* as for --vdev or -a of EAL, or the name of a port */
    bool physical;      /* a NIC, whose MTU is set for max_frame */
    unsigned queues, depth, burst;
    uint32_t max_frame;
    enum clock_choice clock;
};

enum stamp_source {
    STAMP_TSC,    /* read when a frame is received from its queue */
    STAMP_DEVICE, /* in the mbuf, the time in net_pcap's file; us or ns since 1970, by DPDK's version */
    STAMP_NIC,    /* in the mbuf, ticks of the NIC's clock (rte_eth_read_clock) */
};

struct receive_port {
    uint16_t id;
    unsigned queues, depth;
    char name[RTE_ETH_NAME_MAX_LEN];
    char driver[64];
    char interface[IF_NAMESIZE]; /* network interface; empty: none */
    bool rss, started;
    uint64_t flushed; /* frames that arrived before the start and are not captured */
    enum stamp_source source;
    int stamp_offset;
    uint64_t stamp_flag;
    struct clock tsc, nic;
    double tsc_hz, nic_hz;
};

/* Returns the memory of EAL that the port needs, in MiB. */
unsigned receive_port_memory_mb(const struct port_settings *settings);

/* Finds and configures the port: queues, RSS, memory, timestamps. It does not receive yet. */
int receive_port_open(struct receive_port *port, const struct port_settings *settings, struct fault *fault);
int receive_port_start(struct receive_port *port, struct fault *fault);
/* Discards frames that arrived while the queues were configured: they would get the time of the start. */
void receive_port_flush(struct receive_port *port);
void receive_port_close(struct receive_port *port);

/* Called by the main thread ten times per second. */
void receive_port_discipline(struct receive_port *port);

static inline uint64_t receive_port_now(struct receive_port *port) {
    return (uint64_t)clock_ns(&port->tsc, rte_rdtsc());
}

/* Returns the timestamp of a frame. Sets `unstamped` if its mbuf has none and the TSC is used. */
static inline uint64_t receive_port_stamp(struct receive_port *port, struct rte_mbuf *mbuf, bool *unstamped) {
    if (port->source == STAMP_TSC) {
        return receive_port_now(port);
    }
    if (!(mbuf->ol_flags & port->stamp_flag)) {
        *unstamped = true;
        return receive_port_now(port);
    }
    const uint64_t stamp = *RTE_MBUF_DYNFIELD(mbuf, port->stamp_offset, rte_mbuf_timestamp_t *);
    if (port->source == STAMP_NIC) {
        return (uint64_t)clock_ns(&port->nic, stamp);
    }
    const uint64_t us_in_year_5138 = 100000000000000000ULL; /* later versions of net_pcap return ns */
    return stamp < us_in_year_5138 ? stamp * 1000 : stamp;
}

#endif
