#include "engine/bridge.h"

#define FIRST_NS 20000 /* assumed time to forward a packet, before any was forwarded */
#define FOREVER INT64_MAX

/* Returns true if packets are recorded at this time. Ends a recording when its time is over. */
static bool is_recording(struct bridge *bridge, int64_t now) {
    if (!bridge->records) {
        return false;
    }
    if (bridge->until_ns && now >= bridge->until_ns) {
        bridge_stop(bridge, RECORDING_END_UNTIL);
        return false;
    }
    return now >= bridge->from_ns;
}

/* Removes packets that are older than the window. */
static void remove_old(struct bridge *bridge, int64_t now) {
    struct recording *recording = bridge->recording;
    while (recording_packets(recording) && now - recording_at(recording, 0)->ts_ns > bridge->window_ns) {
        recording_remove(recording);
    }
}

/* Makes room for a packet. Returns false if the recording is full. */
static bool make_room(struct bridge *bridge) {
    if (!recording_full(bridge->recording)) {
        return true;
    }
    if (bridge->window_ns) {
        recording_remove(bridge->recording);
        ++bridge->removed_memory;
        return true;
    }
    bridge_stop(bridge, RECORDING_END_MEMORY);
    return false;
}

/* The path of packets through the bridge: from an Rx queue of a port to the same Tx queue of the other port,
 * so that packets of a flow keep their order. */
struct path {
    uint16_t from, to, queue;
};

/* Records the packets of a burst that was sent, and takes over their references. Frees packets that do not
 * fit. */
static void record(struct bridge *bridge, struct rte_mbuf **mbuf, unsigned count, const struct path *path,
                   const int64_t stamp_ns[], const bool stamped[], int64_t now) {
    if (bridge->window_ns) {
        remove_old(bridge, now);
    }
    for (unsigned i = 0; i < count; ++i) {
        if (!bridge->records || !make_room(bridge)) {
            rte_pktmbuf_free(mbuf[i]);
            continue;
        }
        const struct packet packet = {
            .mbuf = mbuf[i],
            .ts_ns = stamped[i] ? stamp_ns[i] : now,
            .port = path->to,
            .queue = (uint8_t)path->queue,
            .first = i == 0,
            .unresolved = !stamped[i] && i > 0,
        };
        recording_add(bridge->recording, &packet, stamped[i] ? TIMESTAMPS_DEVICE : TIMESTAMPS_BURST);
    }
}

/* Sends a burst, with retries. Returns the number of packets sent, and counts the others by reason. The
 * driver frees the packets that it accepts. */
static unsigned send_all(struct bridge *bridge, const struct path *path, struct rte_mbuf **mbuf,
                         unsigned count, int64_t *now) {
    struct port *to = &bridge->ports->port[path->to];
    struct traffic *traffic = &bridge->ports->port[path->from].traffic[path->queue];
    const int64_t first = *now = timebase_ns(bridge->time);
    const int64_t retry_ns = (int64_t)bridge->options->retry_ns;
    const int64_t until_ns = bridge->deadline_ns - first < retry_ns ? bridge->deadline_ns : first + retry_ns;
    unsigned sent = 0;
    for (;;) {
        bool failed = false;
        const uint16_t accepted = port_send(to, path->queue, mbuf + sent, (uint16_t)(count - sent), &failed);
        if (failed) {
            /* all packets of this call: the driver does not report which ones failed; see hides_errors */
            traffic->driver_error += accepted;
            traffic->ring_full += count - sent - accepted;
            traffic->forwarded += sent;
            rte_pktmbuf_free_bulk(mbuf + sent + accepted, count - sent - accepted);
            return sent;
        }
        sent += accepted;
        if (sent == count || timebase_ns(bridge->time) >= until_ns) {
            break;
        }
    }
    traffic->forwarded += sent;
    traffic->ring_full += count - sent;
    rte_pktmbuf_free_bulk(mbuf + sent, count - sent);
    return sent;
}

/* Frees packets that the other port cannot send. Returns the number of the other packets. */
static unsigned remove_long(struct traffic *traffic, const struct port *to, struct rte_mbuf **mbuf,
                            unsigned count) {
    unsigned kept = 0;
    for (unsigned i = 0; i < count; ++i) {
        if (likely(port_fits(to, mbuf[i]))) {
            mbuf[kept++] = mbuf[i];
        } else {
            rte_pktmbuf_free(mbuf[i]);
            ++traffic->too_long;
        }
    }
    return kept;
}

/* Updates the cost with that of a burst: an increase applies immediately, a decrease gradually. */
static void learn_cost(struct forward_cost *cost, unsigned packets, int64_t ns) {
    unsigned size = 0;
    while (1U << size < packets) {
        ++size;
    }
    const int64_t known = cost->ns[size];
    cost->ns[size] = ns > known ? ns : known - (known - ns) / 16;
}

/* If a burst took exceptionally long, for example because the thread was preempted, bursts of its size may no
 * longer be possible, and thus not be measured: their cost decreases with each departure, but not below twice
 * that of half as many packets. */
static void forget_cost(struct forward_cost *cost, unsigned first_size) {
    for (unsigned size = first_size; size < BURST_SIZES; ++size) {
        const int64_t floor_ns = size ? 2 * cost->ns[size - 1] : 0;
        const int64_t lowered_ns = cost->ns[size] - cost->ns[size] / 8;
        if (cost->ns[size] > floor_ns) {
            cost->ns[size] = lowered_ns > floor_ns ? lowered_ns : floor_ns;
        }
    }
}

/* Returns the time that is expected for a burst: at least `half_ns`, the time for half as many packets, or
 * without a measurement twice that time. */
static int64_t expected_ns(const struct forward_cost *cost, unsigned size, int64_t half_ns) {
    const int64_t known = cost->ns[size];
    if (known == 0) {
        return 2 * half_ns;
    }
    return size > 0 && known < half_ns ? half_ns : known;
}

/* Returns the number of packets that can be forwarded until `until_ns`, in `left_ns`. */
static unsigned allowed_packets(struct bridge *bridge, int64_t left_ns, int64_t until_ns) {
    int64_t needed_ns = FIRST_NS / 2;
    unsigned sizes = 0; /* number of possible sizes */
    while (sizes < BURST_SIZES) {
        needed_ns = expected_ns(&bridge->cost, sizes, needed_ns);
        if (needed_ns > left_ns) {
            break;
        }
        ++sizes;
    }
    if (bridge->cost.until_ns != until_ns) {
        bridge->cost.until_ns = until_ns;
        forget_cost(&bridge->cost, sizes);
    }
    const unsigned allowed = sizes ? 1U << (sizes - 1) : 0;
    return allowed < bridge->options->burst ? allowed : bridge->options->burst;
}

static unsigned forward(struct bridge *bridge, const struct path *path, unsigned max_packets,
                        int64_t began_ns) {
    struct rte_mbuf *mbuf[BURST_MAX];
    int64_t stamp_ns[BURST_MAX];
    bool stamped[BURST_MAX];
    struct port *source = &bridge->ports->port[path->from];
    struct traffic *traffic = &source->traffic[path->queue];
    const uint16_t received = rte_eth_rx_burst(source->id, path->queue, mbuf, (uint16_t)max_packets);
    if (received == 0) {
        return 0;
    }
    traffic->received += received;
    const unsigned others =
        bridge->inband ? inband_take(bridge->inband, traffic, path->from, mbuf, received) : received;
    const unsigned count = remove_long(traffic, &bridge->ports->port[path->to], mbuf, others);
    int64_t now = timebase_ns(bridge->time);
    const bool records = is_recording(bridge, now);
    for (unsigned i = 0; records && i < count; ++i) { /* the driver may free a packet when it is sent */
        mbuf_hold(mbuf[i]);
        stamped[i] = port_read_timestamp(source, mbuf[i], &stamp_ns[i]);
    }
    struct rte_mbuf *burst[BURST_MAX];
    for (unsigned i = 0; i < count; ++i) {
        burst[i] = mbuf[i];
    }
    const unsigned sent = send_all(bridge, path, mbuf, count, &now);
    if (records) {
        record(bridge, burst, sent, path, stamp_ns, stamped, now);
        rte_pktmbuf_free_bulk(burst + sent, count - sent);
    }
    learn_cost(&bridge->cost, received, timebase_ns(bridge->time) - began_ns);
    return received;
}

/* Forwards at most one burst of each queue in each direction until a time. Continues with the direction and
 * the queue that follow the latest ones, so that none of them waits longer than the others. */
static unsigned poll_until(struct bridge *bridge, int64_t until_ns) {
    const unsigned paths = 2 * bridge->options->queues;
    unsigned received = 0;
    bridge->deadline_ns = until_ns;
    for (unsigned i = 0; i < paths; ++i) {
        const int64_t now = timebase_ns(bridge->time);
        const unsigned max_packets =
            until_ns == FOREVER ? bridge->options->burst : allowed_packets(bridge, until_ns - now, until_ns);
        if (max_packets == 0) {
            break;
        }
        const uint16_t from = bridge->next % 2;
        const struct path path = {from, 1 - from, (uint16_t)(bridge->next / 2)};
        bridge->next = (bridge->next + 1) % paths;
        received += forward(bridge, &path, max_packets, now);
    }
    return received;
}

unsigned bridge_poll_before(struct bridge *bridge, int64_t due_ns) {
    return poll_until(bridge, due_ns - (int64_t)bridge->options->guard_ns);
}

unsigned bridge_poll(struct bridge *bridge) {
    const unsigned received = poll_until(bridge, FOREVER);
    if (received == 0 && bridge->records) { /* end a recording in time even if no packets arrive */
        is_recording(bridge, timebase_ns(bridge->time));
    }
    return received;
}

void bridge_record(struct bridge *bridge, int64_t from_ns, int64_t until_ns, int64_t window_ns) {
    bridge->from_ns = from_ns;
    bridge->until_ns = until_ns;
    bridge->window_ns = window_ns;
    bridge->removed_memory = 0;
    bridge->end = RECORDING_END_NONE;
    bridge->records = true;
}

void bridge_stop(struct bridge *bridge, enum recording_end end) {
    if (bridge->records) {
        if (bridge->window_ns) {
            remove_old(bridge, timebase_ns(bridge->time));
        }
        bridge->records = false;
        bridge->end = end;
    }
}
