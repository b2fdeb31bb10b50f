#include "engine/lead.h"

#include <rte_ethdev.h>
#include <stdlib.h>
#include <string.h>

#define PROBES 201
#define LOST_MAX 10           /* probes lost in sequence, before any arrived */
#define WAIT_NS 20000000LL    /* for a probe */
#define WAIT_POLLS 100        /* on a simulated clock, which stands still */
#define LONGEST_NS 10000000LL /* as --lead-ns */
#define PROBE_BYTES 60
#define NUMBER_AT 44
#define PAUSE_NS 100000

const struct lead_calls lead_driver_calls = {
    .enable = rte_eth_timesync_enable,
    .read_stamp = rte_eth_timesync_read_tx_timestamp,
    .read_time = rte_eth_timesync_read_time,
};

/* EtherType 0x88B5 is for local experiments (IEEE 802, section 9.2.3); the address is a local group. */
static const uint8_t loop_head[] = {0x03, 0,   0,   'A',  'c',  'a', 0x02, 0,   0,
                                    'A',  'c', 'a', 0x88, 0xb5, 'l', 'e',  'a', 'd'};

/* NICs stamp PTP events only: a Sync of PTP version 2. Its profile number (15) and domain (255) are reserved,
 * so that no clock follows it. */
static const uint8_t sync_head[] = {0x01, 0x1b, 0x19, 0,    0,    0,    0x02, 0,  0,   'A',
                                    'c',  'a',  0x88, 0xf7, 0xf0, 0x02, 0,    44, 0xff};

const char *lead_source_name(enum lead_source source) {
    static const char *const names[] = {"unknown", "option", "transmit", "loopback"};
    return names[source];
}

static struct rte_mbuf *make_probe(struct rte_mempool *pool, uint32_t number, bool loops) {
    struct rte_mbuf *mbuf = rte_pktmbuf_alloc(pool);
    if (!mbuf) {
        return NULL;
    }
    uint8_t *bytes = rte_pktmbuf_mtod(mbuf, uint8_t *);
    memset(bytes, 0, PROBE_BYTES);
    memcpy(bytes, loops ? loop_head : sync_head, loops ? sizeof loop_head : sizeof sync_head);
    memcpy(bytes + NUMBER_AT, &number, sizeof number);
    mbuf->data_len = PROBE_BYTES;
    mbuf->pkt_len = PROBE_BYTES;
    if (!loops) {
        mbuf->ol_flags |= RTE_MBUF_F_TX_IEEE1588_TMST;
    }
    return mbuf;
}

static bool is_probe(const struct rte_mbuf *mbuf, uint32_t number) {
    const uint8_t *bytes = rte_pktmbuf_mtod(mbuf, const uint8_t *);
    return mbuf->data_len >= PROBE_BYTES && memcmp(bytes, loop_head, sizeof loop_head) == 0 &&
           memcmp(bytes + NUMBER_AT, &number, sizeof number) == 0;
}

/* Receives packets at the loop port. Returns true if one of them is the probe, and its time. */
static bool receive_probe(struct port *loop, struct timebase *time, uint32_t number, int64_t *ns) {
    struct rte_mbuf *mbuf[BURST_MAX];
    bool found = false;
    const uint16_t count = rte_eth_rx_burst(loop->id, 0, mbuf, RTE_DIM(mbuf));
    for (uint16_t i = 0; i < count; ++i) {
        if (!found && is_probe(mbuf[i], number)) {
            found = true;
            loop->lead.device = port_read_timestamp(loop, mbuf[i], ns);
            *ns = loop->lead.device ? *ns : timebase_ns(time);
        }
        rte_pktmbuf_free(mbuf[i]);
    }
    return found;
}

static int64_t nanoseconds(const struct timespec *at) {
    return (int64_t)at->tv_sec * 1000000000 + at->tv_nsec;
}

/* Reads the transmit timestamp of the latest probe. Its clock need not have the system's time: both are
 * compared right after the stamp was read. */
static bool read_transmit_stamp(const struct port *port, struct timebase *time,
                                const struct lead_calls *calls, int64_t *ns) {
    struct timespec stamp, now;
    if (calls->read_stamp(port->id, &stamp) != 0) {
        return false;
    }
    const int64_t before = timebase_ns(time);
    if (calls->read_time(port->id, &now) != 0) {
        return false;
    }
    const int64_t middle = before + (timebase_ns(time) - before) / 2;
    *ns = nanoseconds(&stamp) + middle - nanoseconds(&now);
    return true;
}

/* Sends a probe. Returns 1 and the time until it departed; 0: it was lost; -1: there is no memory. */
static int send_probe(struct port *port, struct port *loop, struct rte_mempool *pool, struct timebase *time,
                      const struct lead_calls *calls, uint32_t number, int64_t *lead) {
    struct rte_mbuf *mbuf = make_probe(pool, number, loop != NULL);
    int64_t departed = 0;
    bool failed = false;
    if (!mbuf) {
        return -1;
    }
    const int64_t sent = timebase_ns(time);
    if (port_send(port, 0, &mbuf, 1, &failed) == 0) {
        rte_pktmbuf_free(mbuf);
        return 0;
    }
    for (unsigned polls = 0; !(time->simulated && polls == WAIT_POLLS) && timebase_ns(time) - sent < WAIT_NS;
         ++polls) {
        if (loop ? receive_probe(loop, time, number, &departed)
                 : read_transmit_stamp(port, time, calls, &departed)) {
            *lead = departed - sent;
            return 1;
        }
    }
    return 0;
}

static int compare(const void *a, const void *b) {
    const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

/* Sets the lead to the median (nearest rank), and its range to the 5th and the 95th percentile. */
static int set_lead(struct port *port, const struct port *loop, int64_t *leads, struct fault *fault) {
    struct lead *lead = &port->lead;
    const unsigned count = lead->stamped;
    if (loop && count <= lead->probes / 2) {
        return fail(fault, "--measure-lead %s: %u of %u probes of %s arrived; connect the ports", loop->name,
                    count, lead->probes, port->name);
    }
    if (count <= lead->probes / 2) {
        return 0; /* unknown */
    }
    qsort(leads, count, sizeof *leads, compare);
    const int64_t median = leads[(count - 1) / 2];
    if (median < 0 || median > LONGEST_NS) {
        return fail(fault,
                    "%s: a lead time of %lld ns is impossible; the timestamps are not on the system clock",
                    port->name, (long long)median);
    }
    lead->ns = median;
    lead->low_ns = leads[(count - 1) * 5 / 100];
    lead->high_ns = leads[(count - 1) * 95 / 100];
    lead->device = !loop || loop->lead.device;
    lead->source = loop ? LEAD_LOOPBACK : LEAD_TRANSMIT;
    return 0;
}

int lead_measure(struct port *port, struct port *loop, struct rte_mempool *pool, struct timebase *time,
                 const struct lead_calls *calls, struct fault *fault) {
    static const struct timespec pause = {0, PAUSE_NS};
    int64_t leads[PROBES];
    port->lead = (struct lead){.source = LEAD_UNKNOWN};
    if (!loop && calls->enable(port->id) != 0) {
        return 0;
    }
    for (uint32_t number = 0; number < PROBES; ++number) {
        const int status = send_probe(port, loop, pool, time, calls, number, &leads[port->lead.stamped]);
        if (status < 0) {
            return fail(fault, "%s: no memory for a probe; raise --packets", port->name);
        }
        ++port->lead.probes;
        port->lead.stamped += (unsigned)status;
        if (port->lead.stamped == 0 && port->lead.probes == LOST_MAX) {
            break;
        }
        if (!time->simulated) {
            nanosleep(&pause, NULL); /* a queue of the kernel is empty again */
        }
    }
    return set_lead(port, loop, leads, fault);
}

int lead_measure_all(struct ports *ports, const struct options *options, struct timebase *time,
                     struct fault *fault) {
    for (unsigned i = 0; i < ports->count && options->lead_sources; ++i) {
        if (lead_measure(&ports->port[i], ports->loop[i], ports->pool, time, &lead_driver_calls, fault) !=
            0) {
            return -1;
        }
        ports->port[i].errors = port_errors(&ports->port[i]);
    }
    ports_close_loops(ports);
    return 0;
}
