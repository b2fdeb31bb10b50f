#include "control/counters.h"

#include <time.h>

#define SETTLE_NS 1000000
#define EMPTY_POLLS 2    /* the first poll may have begun earlier */
#define SETTLE_POLLS 100 /* on a busy machine, the kernel delivers packets later than it counts them */

/* Reads the counters of the program and of the driver. */
static struct counters read_own(const struct session *session, unsigned at) {
    const struct port *port = &session->ports.port[at];
    struct rte_eth_stats stats;
    struct counters counters = {.answered = session->answered[at]};
    if (session->options.bridge) {
        counters.forwarded = port_traffic(session->worker.traffic[1 - at]).forwarded;
        counters.received = port_traffic(session->worker.traffic[at]).received;
        counters.kernel_dropped = port->packet_sockets.dropped;
    }
    if (rte_eth_stats_get(port->id, &stats) == 0) {
        counters.sent = stats.opackets;
        counters.errors = stats.oerrors;
        counters.missed = stats.imissed;
        counters.no_mbuf = stats.rx_nombuf;
    }
    return counters;
}

/* Reads the counters of all interfaces at once: packets that arrive between two readings would be included in
 * one of them only. */
static void read_interfaces(const struct session *session,
                            struct interface_counters counters[OPTIONS_PORTS]) {
    const char *names[OPTIONS_PORTS];
    for (unsigned i = 0; i < session->ports.count; ++i) {
        names[i] = session->ports.port[i].interface;
    }
    read_counters_of_interfaces(names, session->ports.count, counters);
}

struct counters counters_read(const struct session *session, unsigned at) {
    struct counters counters = read_own(session, at);
    counters.interface = read_interface_counters(session->ports.port[at].interface);
    return counters;
}

uint64_t counters_not_received(const struct counters *after, const struct counters *before) {
    const int64_t missing = (int64_t)(after->awaited - before->interface.rx_packets) -
                            (int64_t)(after->received - before->received) -
                            (int64_t)(after->kernel_dropped - before->kernel_dropped) -
                            (int64_t)(after->missed - before->missed) -
                            (int64_t)(after->no_mbuf - before->no_mbuf);
    return after->interface.known && before->interface.known && missing > 0 ? (uint64_t)missing : 0;
}

void counters_count_drops(struct session *session) {
    for (unsigned i = 0; i < session->ports.count; ++i) {
        packet_sockets_count(&session->ports.port[i].packet_sockets);
    }
}

/* Returns true if every packet that the interfaces had received at the time of `awaited` was received by the
 * bridge or counted as lost. */
static bool have_received(struct session *session, const uint64_t awaited[OPTIONS_PORTS]) {
    worker_request(&session->worker, REQUEST_COUNT);
    counters_count_drops(session);
    for (unsigned i = 0; i < session->ports.count; ++i) {
        struct counters now = read_own(session, i);
        now.interface.known = session->counters_before[i].interface.known;
        now.awaited = awaited[i];
        if (counters_not_received(&now, &session->counters_before[i])) {
            return false;
        }
    }
    return true;
}

/* Waits at most SETTLE_POLLS ms until the bridge has received what its interfaces have received by now: after
 * a run of dense traffic, packets are still in the ring of the driver. Sets `awaited`. */
static void await_reception(struct session *session, uint64_t awaited[OPTIONS_PORTS]) {
    const struct timespec pause = {0, SETTLE_NS};
    struct interface_counters interfaces[OPTIONS_PORTS];
    read_interfaces(session, interfaces);
    for (unsigned i = 0; i < session->ports.count; ++i) {
        awaited[i] = interfaces[i].rx_packets;
    }
    for (unsigned polls = 0; polls < SETTLE_POLLS && !have_received(session, awaited); ++polls) {
        nanosleep(&pause, NULL);
    }
}

/* Reads the counters of all ports. The polling thread is paused during this: frames that it sends between the
 * reading of two counters would count as lost or hide a loss. */
void counters_read_all(struct session *session, struct counters counters[OPTIONS_PORTS]) {
    struct interface_counters interfaces[OPTIONS_PORTS];
    worker_request(&session->worker, REQUEST_PAUSE);
    read_interfaces(session, interfaces);
    counters_count_drops(session);
    for (unsigned i = 0; i < session->ports.count; ++i) {
        counters[i] = read_own(session, i);
        counters[i].interface = interfaces[i];
    }
    worker_request(&session->worker, REQUEST_RESUME);
}

/* Waits at most SETTLE_POLLS ms until the bridge has received all packets that have arrived: a packet that
 * the interface has counted before the first reading, and the bridge receives afterwards, would hide a lost
 * one. */
static void await_empty(const struct session *session) {
    const struct timespec pause = {0, SETTLE_NS};
    const uint64_t before = session->worker.empty_polls;
    for (unsigned polls = 0; polls < SETTLE_POLLS && session->worker.empty_polls - before < EMPTY_POLLS;
         ++polls) {
        nanosleep(&pause, NULL);
    }
}

void counters_read_before(struct session *session) {
    if (session->options.bridge) {
        await_empty(session);
    }
    counters_read_all(session, session->counters_before);
}

/* Reads the counters after a run or a recording. */
void counters_read_after(struct session *session) {
    uint64_t awaited[OPTIONS_PORTS] = {0};
    if (session->options.bridge) {
        await_reception(session, awaited);
    }
    counters_read_all(session, session->counters_after);
    for (unsigned i = 0; i < session->ports.count; ++i) {
        session->counters_after[i].awaited = awaited[i];
    }
}
