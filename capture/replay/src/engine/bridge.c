#include "engine/bridge.h"

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

/* Records the packets of a burst that was sent, and takes over their references. Frees packets that do not
 * fit. */
static void record(struct bridge *bridge, struct rte_mbuf **mbuf, unsigned count, uint16_t to,
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
            .port = to,
            .first = i == 0,
            .unresolved = !stamped[i] && i > 0,
        };
        recording_add(bridge->recording, &packet, stamped[i] ? TIMESTAMPS_DEVICE : TIMESTAMPS_BURST);
    }
}

/* Sends a burst, with retries. Returns the number of packets sent, and counts the others by reason. The
 * driver frees the packets that it accepts. */
static unsigned send_all(struct bridge *bridge, struct port *from, struct port *to, struct rte_mbuf **mbuf,
                         unsigned count, int64_t *now) {
    const int64_t first = *now = timebase_ns(bridge->time);
    unsigned sent = 0;
    for (;;) {
        bool failed = false;
        const uint16_t accepted = port_send(to, 0, mbuf + sent, (uint16_t)(count - sent), &failed);
        if (failed) {
            /* all packets of this call: the driver does not report which ones failed; see hides_errors */
            from->traffic.driver_error += accepted;
            from->traffic.ring_full += count - sent - accepted;
            from->traffic.forwarded += sent;
            rte_pktmbuf_free_bulk(mbuf + sent + accepted, count - sent - accepted);
            return sent;
        }
        sent += accepted;
        if (sent == count || timebase_ns(bridge->time) - first >= (int64_t)bridge->options->retry_ns) {
            break;
        }
    }
    from->traffic.forwarded += sent;
    from->traffic.ring_full += count - sent;
    rte_pktmbuf_free_bulk(mbuf + sent, count - sent);
    return sent;
}

/* Frees packets that the other port cannot send. Returns the number of the other packets. */
static unsigned remove_long(struct port *from, const struct port *to, struct rte_mbuf **mbuf,
                            unsigned count) {
    unsigned kept = 0;
    for (unsigned i = 0; i < count; ++i) {
        if (likely(port_fits(to, mbuf[i]))) {
            mbuf[kept++] = mbuf[i];
        } else {
            rte_pktmbuf_free(mbuf[i]);
            ++from->traffic.too_long;
        }
    }
    return kept;
}

static unsigned forward(struct bridge *bridge, uint16_t from, uint16_t to) {
    struct rte_mbuf *mbuf[BURST_MAX];
    int64_t stamp_ns[BURST_MAX];
    bool stamped[BURST_MAX];
    struct port *source = &bridge->ports->port[from], *target = &bridge->ports->port[to];
    const uint16_t received = rte_eth_rx_burst(source->id, 0, mbuf, (uint16_t)bridge->options->burst);
    if (received == 0) {
        return 0;
    }
    source->traffic.received += received;
    const unsigned count = remove_long(source, target, mbuf, received);
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
    const unsigned sent = send_all(bridge, source, target, mbuf, count, &now);
    if (records) {
        record(bridge, burst, sent, to, stamp_ns, stamped, now);
        rte_pktmbuf_free_bulk(burst + sent, count - sent);
    }
    return received;
}

unsigned bridge_poll(struct bridge *bridge) {
    const unsigned received = forward(bridge, 0, 1) + forward(bridge, 1, 0);
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
