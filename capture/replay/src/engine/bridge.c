#include "engine/bridge.h"

/* Whether packets of this time are recorded. Ends a recording whose time is over. */
static bool recording_at_time(struct bridge *bridge, int64_t now) {
    if (!bridge->records) {
        return false;
    }
    if (bridge->until_ns && now >= bridge->until_ns) {
        bridge_stop(bridge, RECORDED_UNTIL);
        return false;
    }
    return now >= bridge->from_ns;
}

/* Removes packets that are older than the window. */
static void roll(struct bridge *bridge, int64_t now) {
    struct recording *recording = bridge->recording;
    while (recording_packets(recording) && now - recording_at(recording, 0)->ts_ns > bridge->window_ns) {
        recording_remove(recording);
    }
}

/* Makes room for a packet: false if there is none. */
static bool make_room(struct bridge *bridge) {
    if (!recording_full(bridge->recording)) {
        return true;
    }
    if (bridge->window_ns) {
        recording_remove(bridge->recording);
        ++bridge->removed_memory;
        return true;
    }
    bridge_stop(bridge, RECORDED_MEMORY);
    return false;
}

/* Records a burst that was sent, whose packets are still held. Packets that do not fit are released. */
static void record(struct bridge *bridge, struct rte_mbuf **mbuf, unsigned count, uint16_t to,
                   const int64_t stamp_ns[], const bool stamped[], int64_t now) {
    if (bridge->window_ns) {
        roll(bridge, now);
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

/* Sends a burst, with retries; returns how many packets were sent, and counts the others by reason. The
 * driver releases what it takes. */
static unsigned send_all(struct bridge *bridge, struct port *from, struct port *to, struct rte_mbuf **mbuf,
                         unsigned count, int64_t *now) {
    const int64_t first = *now = timebase_ns(bridge->time);
    unsigned sent = 0;
    for (;;) {
        bool failed = false;
        const uint16_t taken = port_send(to, mbuf + sent, (uint16_t)(count - sent), &failed);
        if (failed) {
            /* all of this call, because nothing shows which; see hides_errors */
            from->traffic.driver_error += taken;
            from->traffic.ring_full += count - sent - taken;
            from->traffic.forwarded += sent;
            rte_pktmbuf_free_bulk(mbuf + sent + taken, count - sent - taken);
            return sent;
        }
        sent += taken;
        if (sent == count || timebase_ns(bridge->time) - first >= (int64_t)bridge->options->retry_ns) {
            break;
        }
    }
    from->traffic.forwarded += sent;
    from->traffic.ring_full += count - sent;
    rte_pktmbuf_free_bulk(mbuf + sent, count - sent);
    return sent;
}

/* Removes packets that the other port cannot send; returns how many remain. */
static unsigned keep_short(struct port *from, const struct port *to, struct rte_mbuf **mbuf, unsigned count) {
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
    const uint16_t got = rte_eth_rx_burst(source->id, 0, mbuf, (uint16_t)bridge->options->burst);
    if (got == 0) {
        return 0;
    }
    source->traffic.received += got;
    const unsigned count = keep_short(source, target, mbuf, got);
    int64_t now = timebase_ns(bridge->time);
    const bool records = recording_at_time(bridge, now);
    for (unsigned i = 0; records && i < count; ++i) { /* the driver may release a packet when it is sent */
        mbuf_hold(mbuf[i]);
        stamped[i] = port_stamp(source, mbuf[i], &stamp_ns[i]);
    }
    struct rte_mbuf *held[BURST_MAX];
    for (unsigned i = 0; i < count; ++i) {
        held[i] = mbuf[i];
    }
    const unsigned sent = send_all(bridge, source, target, mbuf, count, &now);
    if (records) {
        record(bridge, held, sent, to, stamp_ns, stamped, now);
        rte_pktmbuf_free_bulk(held + sent, count - sent);
    }
    return got;
}

unsigned bridge_poll(struct bridge *bridge) {
    const unsigned got = forward(bridge, 0, 1) + forward(bridge, 1, 0);
    if (got == 0 && bridge->records) { /* a recording ends without packets, too */
        recording_at_time(bridge, timebase_ns(bridge->time));
    }
    return got;
}

void bridge_record(struct bridge *bridge, int64_t from_ns, int64_t until_ns, int64_t window_ns) {
    bridge->from_ns = from_ns;
    bridge->until_ns = until_ns;
    bridge->window_ns = window_ns;
    bridge->removed_memory = 0;
    bridge->end = RECORDED_NOT;
    bridge->records = true;
}

void bridge_stop(struct bridge *bridge, enum recording_end end) {
    if (bridge->records) {
        if (bridge->window_ns) {
            roll(bridge, timebase_ns(bridge->time));
        }
        bridge->records = false;
        bridge->end = end;
    }
}
