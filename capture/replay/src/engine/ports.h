/* DPDK ports of the replayer and the generator, which send to them; a bridge also receives from them. */
#ifndef ACAPELLA_REPLAY_PORTS_H
#define ACAPELLA_REPLAY_PORTS_H

#include <net/if.h>
#include <rte_ethdev.h>
#include <rte_mbuf_dyn.h>

#include "common/packet_sockets.h"
#include "engine/timebase.h"
#include "options.h"

enum port_stamps {
    PORT_STAMPS_NONE,
    PORT_STAMPS_TIME,  /* us or ns since 1970: of the file of net_pcap, or of the kernel (net_af_packet) */
    PORT_STAMPS_TICKS, /* ticks of the NIC's clock (rte_eth_read_clock) */
};

enum lead_source { LEAD_UNKNOWN, LEAD_OPTION, LEAD_TRANSMIT, LEAD_LOOPBACK };
/* DEVICE: of the NIC */
enum lead_stamps { LEAD_STAMPS_NONE, LEAD_STAMPS_DEVICE, LEAD_STAMPS_KERNEL };

/* The time from passing a packet to the driver until the packet departs (engine/lead.h). */
struct lead {
    enum lead_source source;
    int64_t ns;              /* median; 0 if unknown */
    int64_t low_ns, high_ns; /* of the probes: 5th and 95th percentile */
    unsigned probes, arrived, stamped;
    enum lead_stamps stamps; /* of the probes */
};

/* Packets received by a port of a bridge: received = forwarded + ring_full + driver_error + too_long +
 * control + control_dropped. The last two count control messages (--in-band) that were copied to the ring, or
 * were not. */
struct traffic {
    uint64_t received, forwarded, ring_full, driver_error, too_long, control, control_dropped;
};

struct port {
    uint16_t id;
    char name[RTE_ETH_NAME_MAX_LEN];
    char driver[64];
    char interface[IF_NAMESIZE]; /* network interface; empty: none */
    uint32_t longest;            /* frame without FCS and VLAN tag, bytes */
    uint32_t ring_room; /* longest frame that the ring of net_af_packet can contain; 0 without a ring */
    bool configured, started;
    bool receives;     /* a port of a bridge, or one that receives probes */
    bool hides_errors; /* the driver accepts packets that it cannot send, and counts them in oerrors */
    uint16_t rx_queues, tx_queues;
    uint16_t tx_depth;                    /* descriptors of a Tx queue */
    bool rss;                             /* the device distributes flows to the Rx queues */
    uint64_t errors;                      /* oerrors after the latest burst */
    uint64_t flushed;                     /* packets that arrived before the start */
    struct packet_sockets packet_sockets; /* of net_af_packet */
    bool promiscuous;
    int promiscuous_socket; /* of drivers of network interfaces; -1 if none */
    enum port_stamps stamps;
    int stamp_offset;
    uint64_t stamp_flag;
    struct clock clock; /* of the NIC */
    struct lead lead;
    struct traffic traffic[QUEUES_MAX]; /* by Rx queue */
    uint64_t sent[QUEUES_MAX];          /* packets of a run, by Tx queue */
};

struct ports {
    struct port port[OPTIONS_PORTS];
    unsigned count;
    struct port *loop[OPTIONS_PORTS]; /* receives probes of `port`: one of `port` or `extra`; NULL if none */
    struct port extra[OPTIONS_PORTS]; /* ports that only receive probes */
    unsigned extras;
    struct rte_mempool *pool;
};

/* Returns the number of mbufs needed besides those of the recording. */
unsigned ports_mbuf_count(const struct options *options);

/* Configures all ports of the options, and creates the pool. Returns 0, or -1 with the reason in fault; call
 * ports_close even then. */
int ports_open(struct ports *ports, const struct options *options, unsigned mbufs, struct fault *fault);
int ports_start(struct ports *ports, bool receive, struct fault *fault);

/* Waits up to 10 s for the link of each device that is not a network interface. Then measures the rates of
 * the TSC and of the clocks of NICs, which takes 100 ms each. It does so after the wait, because nothing
 * corrects the clocks during the wait. Returns 0, or -1 with the reason in fault. */
int ports_begin_clocks(struct ports *ports, struct timebase *time, struct fault *fault);

/* Corrects the conversion of the clocks of NICs; `now_ns` is the current time. */
void ports_discipline(struct ports *ports, int64_t now_ns);

/* Returns -1 with the reason in fault if the link of a port is down. */
int ports_check_links(struct ports *ports, struct fault *fault);
void ports_close(struct ports *ports);

/* Returns the largest lead time of the ports, or 0 if all are unknown. */
int64_t ports_largest_lead_ns(const struct ports *ports);

/* Closes the ports that only received probes. */
void ports_close_loops(struct ports *ports);

/* Returns the sum of the counters of all queues. */
struct traffic port_traffic(const struct traffic traffic[QUEUES_MAX]);

/* Discards packets that have arrived. */
void port_flush(struct port *port);

/* Sets `longest` of a port from the current MTU of its interface. */
void port_find_longest(struct port *port);

/* Returns true if a packet is not longer than the port can send. */
bool port_fits(const struct port *port, const struct rte_mbuf *mbuf);

/* Returns the value of the driver's counter of failed packets. */
uint64_t port_errors(const struct port *port);

/* Sends packets. Returns the number of packets that the driver accepted. Sets `failed` if it could not send
 * all of them. */
static inline uint16_t port_send(struct port *port, uint16_t queue, struct rte_mbuf **mbuf, uint16_t count,
                                 bool *failed) {
    const uint16_t accepted = rte_eth_tx_burst(port->id, queue, mbuf, count);
    *failed = false;
    if (port->hides_errors) {
        const uint64_t errors = port_errors(port);
        *failed = errors != port->errors;
        port->errors = errors;
    }
    return accepted;
}

/* Reads the device's timestamp of a received packet. Returns false if it has none. */
static inline bool port_read_timestamp(struct port *port, struct rte_mbuf *mbuf, int64_t *ns) {
    if (port->stamps == PORT_STAMPS_NONE || !(mbuf->ol_flags & port->stamp_flag)) {
        return false;
    }
    const uint64_t stamp = *RTE_MBUF_DYNFIELD(mbuf, port->stamp_offset, rte_mbuf_timestamp_t *);
    if (port->stamps == PORT_STAMPS_TICKS) {
        *ns = clock_ns(&port->clock, stamp);
    } else {
        const uint64_t us_in_year_5138 = 100000000000000000ULL; /* later versions of net_pcap return ns */
        *ns = (int64_t)(stamp < us_in_year_5138 ? stamp * 1000 : stamp);
    }
    return true;
}

#endif
