#include "control/counters.h"

#include <time.h>

#define SETTLE_NS 1000000
#define SETTLE_POLLS 100 /* on a busy machine, the kernel delivers packets later than it counts them */

struct counters counters_read(const struct session *session, unsigned at) {
    const struct port *port = &session->ports.port[at];
    struct rte_eth_stats stats;
    struct counters counters = {.interface = read_interface_counters(port->interface)};
    counters.answered = session->answered[at];
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

/* Returns true if the bridge has received what its interfaces had received at the time of `awaited`, or lost
 * packets are counted. */
static bool have_received(struct session *session, const uint64_t awaited[OPTIONS_PORTS]) {
    worker_request(&session->worker, REQUEST_COUNT);
    counters_count_drops(session);
    for (unsigned i = 0; i < session->ports.count; ++i) {
        struct counters now = counters_read(session, i);
        now.awaited = awaited[i];
        if (counters_not_received(&now, &session->counters_before[i])) {
            return false;
        }
    }
    return true;
}

/* Waits at most SETTLE_POLLS ms until the bridge has received what its interfaces have received by now:
 * packets are still in the ring of the driver after a run of dense traffic. Sets `awaited`. */
static void await_reception(struct session *session, uint64_t awaited[OPTIONS_PORTS]) {
    const struct timespec pause = {0, SETTLE_NS};
    for (unsigned i = 0; i < session->ports.count; ++i) {
        awaited[i] = read_interface_counters(session->ports.port[i].interface).rx_packets;
    }
    for (unsigned polls = 0; polls < SETTLE_POLLS && !have_received(session, awaited); ++polls) {
        nanosleep(&pause, NULL);
    }
}

/* Reads the counters of all ports. The polling thread is paused meanwhile: frames that it sends between the
 * reading of two counters would count as lost or hide a loss. */
void counters_read_all(struct session *session, struct counters counters[OPTIONS_PORTS]) {
    worker_request(&session->worker, REQUEST_PAUSE);
    counters_count_drops(session);
    for (unsigned i = 0; i < session->ports.count; ++i) {
        counters[i] = counters_read(session, i);
    }
    worker_request(&session->worker, REQUEST_RESUME);
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
