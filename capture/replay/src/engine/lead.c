#include "engine/lead.h"

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/probe_socket.h"
#include "engine/promiscuous.h"

#define PROBES 201
#define LOST_MAX 10           /* give up after this number of probes if none has a timestamp */
#define WAIT_NS 20000000LL    /* for a probe */
#define WAIT_POLLS 100        /* on a simulated clock, which stands still */
#define LONGEST_NS 10000000LL /* as --lead-ns */
#define PROBE_BYTES 60
#define KEY_AT 44
#define CLOCK_ERROR_NS 5000 /* between the TSC and timestamps, shortly after the start on a busy machine */
#define PAUSE_NS 100000

const struct lead_calls lead_driver_calls = {
    .enable = rte_eth_timesync_enable,
    .read_stamp = rte_eth_timesync_read_tx_timestamp,
    .read_time = rte_eth_timesync_read_time,
};

/* EtherType 0x88B5 is for local experiments (IEEE 802, section 9.2.3); the destination is a locally
 * administered multicast address. */
static const uint8_t loop_head[] = {0x03, 0,   0,   'A',  'c',  'a', 0x02, 0,   0,
                                    'A',  'c', 'a', 0x88, 0xb5, 'l', 'e',  'a', 'd'};

/* NICs timestamp only PTP event messages: this is a Sync message of PTP version 2. Its majorSdoId (0xF)
 * and domain (255) are reserved, so that no clock follows it. */
static const uint8_t sync_head[] = {0x01, 0x1b, 0x19, 0,    0,    0,    0x02, 0,  0,   'A',
                                    'c',  'a',  0x88, 0xf7, 0xf0, 0x02, 0,    44, 0xff};

const char *lead_source_name(enum lead_source source) {
    static const char *const names[] = {"unknown", "option", "transmit", "loopback"};
    return names[source];
}

/* Identifies a probe uniquely among all measurements, including those of other processes. */
struct key {
    uint64_t measurement; /* the TSC at its start */
    uint32_t number;
};

/* Where and how the probes of a port are received. */
struct reception {
    struct port *port;     /* NULL if transmit timestamps are read */
    int socket;            /* of the kernel on the port's interface; -1 if the port has timestamps */
    struct timebase *time; /* of the departure */
    const struct lead_calls *calls;
};

enum probe { PROBE_LOST, PROBE_ARRIVED, PROBE_STAMPED, PROBE_NO_MEMORY };

static struct rte_mbuf *make_probe(struct rte_mempool *pool, const struct key *key, bool loops) {
    struct rte_mbuf *mbuf = rte_pktmbuf_alloc(pool);
    if (!mbuf) {
        return NULL;
    }
    uint8_t *bytes = rte_pktmbuf_mtod(mbuf, uint8_t *);
    memset(bytes, 0, PROBE_BYTES);
    memcpy(bytes, loops ? loop_head : sync_head, loops ? sizeof loop_head : sizeof sync_head);
    memcpy(bytes + KEY_AT, &key->measurement, sizeof key->measurement);
    memcpy(bytes + KEY_AT + sizeof key->measurement, &key->number, sizeof key->number);
    mbuf->data_len = PROBE_BYTES;
    mbuf->pkt_len = PROBE_BYTES;
    if (!loops) {
        mbuf->ol_flags |= RTE_MBUF_F_TX_IEEE1588_TMST;
    }
    return mbuf;
}

static bool is_probe(const uint8_t *bytes, size_t size, const struct key *key) {
    return size >= PROBE_BYTES && memcmp(bytes, loop_head, sizeof loop_head) == 0 &&
           memcmp(bytes + KEY_AT, &key->measurement, sizeof key->measurement) == 0 &&
           memcmp(bytes + KEY_AT + sizeof key->measurement, &key->number, sizeof key->number) == 0;
}

/* Receives a burst from each queue of a port. If it contains the probe, sets the time of its timestamp. */
static enum probe receive_at_port(struct port *port, const struct key *key, int64_t *ns) {
    struct rte_mbuf *mbuf[BURST_MAX];
    enum probe found = PROBE_LOST;
    for (uint16_t queue = 0; queue < port->rx_queues; ++queue) {
        const uint16_t count = rte_eth_rx_burst(port->id, queue, mbuf, RTE_DIM(mbuf));
        for (uint16_t i = 0; i < count; ++i) {
            if (is_probe(rte_pktmbuf_mtod(mbuf[i], const uint8_t *), mbuf[i]->data_len, key)) {
                found = port_read_timestamp(port, mbuf[i], ns) ? PROBE_STAMPED : PROBE_ARRIVED;
            }
            rte_pktmbuf_free(mbuf[i]);
        }
    }
    return found;
}

static enum probe receive_at_socket(int socket, const struct key *key, int64_t *ns) {
    uint8_t bytes[PROBE_BYTES];
    const size_t size = probe_socket_receive(socket, bytes, sizeof bytes, ns);
    return size && is_probe(bytes, size, key) ? PROBE_STAMPED : PROBE_LOST;
}

static int64_t nanoseconds(const struct timespec *at) {
    return (int64_t)at->tv_sec * 1000000000 + at->tv_nsec;
}

/* Reads the transmit timestamp of the latest probe. The clock of the NIC need not be set to system time: both
 * clocks are compared right after the stamp was read. */
static enum probe read_transmit_stamp(const struct port *port, const struct reception *reception,
                                      int64_t *ns) {
    struct timespec stamp, now;
    if (reception->calls->read_stamp(port->id, &stamp) != 0) {
        return PROBE_LOST;
    }
    const int64_t before = timebase_ns(reception->time);
    if (reception->calls->read_time(port->id, &now) != 0) {
        return PROBE_LOST;
    }
    const int64_t middle = before + (timebase_ns(reception->time) - before) / 2;
    *ns = nanoseconds(&stamp) + middle - nanoseconds(&now);
    return PROBE_STAMPED;
}

/* Sends a probe and waits for it. If it has a timestamp, sets `lead` to the time until it departed. */
static enum probe send_probe(struct port *port, const struct reception *reception, struct rte_mempool *pool,
                             const struct key *key, int64_t *lead) {
    struct rte_mbuf *mbuf = make_probe(pool, key, reception->port != NULL);
    struct timebase *time = reception->time;
    int64_t departed = 0;
    bool failed = false;
    if (!mbuf) {
        return PROBE_NO_MEMORY;
    }
    const int64_t sent = timebase_ns(time);
    if (port_send(port, 0, &mbuf, 1, &failed) == 0) {
        rte_pktmbuf_free(mbuf);
        return PROBE_LOST;
    }
    for (unsigned polls = 0; !(time->simulated && polls == WAIT_POLLS) && timebase_ns(time) - sent < WAIT_NS;
         ++polls) {
        const enum probe found = !reception->port ? read_transmit_stamp(port, reception, &departed)
                                 : reception->socket < 0
                                     ? receive_at_port(reception->port, key, &departed)
                                     : receive_at_socket(reception->socket, key, &departed);
        if (found != PROBE_LOST) {
            *lead = departed - sent;
            return found;
        }
    }
    return PROBE_LOST;
}

static int compare(const void *a, const void *b) {
    const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

/* Sets the lead to the median (nearest rank), and its range to the 5th and the 95th percentile. */
static int set_lead(struct port *port, const struct reception *reception, int64_t *leads,
                    struct fault *fault) {
    struct lead *lead = &port->lead;
    const unsigned count = lead->stamped;
    if (reception->port && lead->arrived <= lead->probes / 2) {
        return fail(fault, "--measure-lead %s: %u of %u probes of %s arrived; connect the ports",
                    reception->port->name, lead->arrived, lead->probes, port->name);
    }
    if (count <= lead->probes / 2) {
        return 0; /* unknown */
    }
    qsort(leads, count, sizeof *leads, compare);
    const int64_t median = leads[(count - 1) / 2];
    if (median < -CLOCK_ERROR_NS || median > LONGEST_NS) {
        return fail(fault,
                    "%s: a lead time of %lld ns is impossible; the timestamps are not on the system clock",
                    port->name, (long long)median);
    }
    lead->ns = median < 0 ? 0 : median;
    lead->low_ns = leads[(count - 1) * 5 / 100];
    lead->high_ns = leads[(count - 1) * 95 / 100];
    /* drivers with times since 1970 get them from the kernel */
    const bool by_kernel =
        reception->socket >= 0 || (reception->port && reception->port->stamps == PORT_STAMPS_TIME);
    lead->stamps = by_kernel ? LEAD_STAMPS_KERNEL : LEAD_STAMPS_DEVICE;
    lead->source = reception->port ? LEAD_LOOPBACK : LEAD_TRANSMIT;
    return 0;
}

/* Prepares the reception. Returns 1, 0 without timestamps, or -1 with the reason in fault. */
static int begin_reception(struct reception *reception, const struct port *port, struct fault *fault) {
    reception->socket = -1;
    if (!reception->port) {
        return reception->calls->enable(port->id) == 0;
    }
    if (reception->port->stamps != PORT_STAMPS_NONE) {
        if (promiscuous_begin(reception->port, fault) != 0) {
            return -1;
        }
        port_flush(reception->port);
        return 1;
    }
    if (strcmp(reception->port->driver, "net_af_packet") != 0) {
        return 0; /* the kernel does not see the frames of other drivers */
    }
    reception->socket = probe_socket_open(reception->port->interface, fault);
    return reception->socket < 0 ? -1 : 1;
}

static void end_reception(const struct reception *reception) {
    if (reception->socket >= 0) {
        close(reception->socket);
    } else if (reception->port) {
        promiscuous_end(reception->port);
    }
}

/* Sends the probes. Returns 0, or -1 with the reason in fault. */
static int send_probes(struct port *port, const struct reception *reception, struct rte_mempool *pool,
                       int64_t leads[PROBES], struct fault *fault) {
    static const struct timespec pause = {0, PAUSE_NS};
    struct key key = {.measurement = rte_rdtsc()};
    struct lead *lead = &port->lead;
    for (; key.number < PROBES; ++key.number) {
        const enum probe result = send_probe(port, reception, pool, &key, &leads[lead->stamped]);
        if (result == PROBE_NO_MEMORY) {
            return fail(fault, "%s: no memory for a probe; raise --packets", port->name);
        }
        ++lead->probes;
        lead->arrived += result != PROBE_LOST;
        lead->stamped += result == PROBE_STAMPED;
        if (lead->stamped == 0 && lead->probes == LOST_MAX) {
            break;
        }
        if (!reception->time->simulated) {
            nanosleep(&pause, NULL); /* until a queue of the kernel is empty again */
        }
    }
    return 0;
}

int lead_measure(struct port *port, struct port *loop, struct rte_mempool *pool, struct timebase *time,
                 const struct lead_calls *calls, struct fault *fault) {
    int64_t leads[PROBES];
    struct reception reception = {.port = loop, .time = time, .calls = calls};
    port->lead = (struct lead){.source = LEAD_UNKNOWN};
    int status = begin_reception(&reception, port, fault);
    if (status <= 0) {
        return status;
    }
    status = send_probes(port, &reception, pool, leads, fault);
    end_reception(&reception);
    return status == 0 ? set_lead(port, &reception, leads, fault) : -1;
}

int lead_measure_all(struct ports *ports, const struct options *options, struct timebase *time,
                     struct fault *fault) {
    for (unsigned i = 0; i < options->lead_sources; ++i) {
        if (lead_measure(&ports->port[i], ports->loop[i], ports->pool, time, &lead_driver_calls, fault) !=
            0) {
            return -1;
        }
        ports->port[i].errors = port_errors(&ports->port[i]);
    }
    ports_close_loops(ports);
    return 0;
}
