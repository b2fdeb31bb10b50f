#include "transmission.h"

const char *transmission_end_name(enum transmission_end end) {
    static const char *const names[] = {"sending", "complete", "stop", "clock_step", "link_down"};
    return names[end];
}

void transmission_stop(struct transmission *transmission, enum transmission_end end) {
    enum transmission_end sending = SENDING;
    atomic_compare_exchange_strong(&transmission->end, &sending, end);
}

/* Builds the next packet in an mbuf. Its departure time is `now`, which was read before the packet was built:
 * the packet cannot leave earlier. */
static void build(struct transmission *transmission, unsigned at, int64_t due_ns, struct flow *flow,
                  int64_t now) {
    struct rte_mbuf *mbuf = transmission->mbuf[at];
    struct built *built = &transmission->built[at];
    *built = (struct built){flow, flow_next_bytes(flow), flow_next_malformed(flow),
                            now - transmission->start_ns - due_ns};
    flow_build(flow, rte_pktmbuf_mtod(mbuf, uint8_t *), now);
    mbuf->data_len = (uint16_t)built->bytes;
    mbuf->pkt_len = built->bytes;
    schedule_advance(transmission->schedule, due_ns);
}

/* Builds the packets that are due, and returns their number. */
static unsigned build_burst(struct transmission *transmission, int64_t now) {
    unsigned count = 0;
    for (; count < transmission->burst; ++count) {
        int64_t due_ns = 0;
        struct flow *flow = schedule_next(transmission->schedule, &due_ns);
        if (!flow || transmission->start_ns + due_ns > now) {
            break;
        }
        build(transmission, count, due_ns, flow, now);
    }
    return count;
}

/* Counts packets of the burst as sent at `departure_ns`, or as dropped. */
static void count_packets(struct transmission *transmission, unsigned from, unsigned to, bool sent,
                          int64_t departure_ns) {
    for (unsigned i = from; i < to; ++i) {
        const struct built *built = &transmission->built[i];
        if (sent) {
            flow_count(built->flow, built->bytes, built->malformed, departure_ns);
            errors_count(&transmission->errors, built->error_ns);
        } else {
            ++built->flow->dropped;
        }
    }
}

static void send_burst(struct transmission *transmission, unsigned packets, int64_t now) {
    unsigned done = 0;
    for (int64_t tried_ns = now; done < packets && tried_ns - now <= transmission->retry_ns;
         tried_ns = timebase_ns(transmission->time)) {
        bool failed = false;
        const uint16_t accepted =
            port_send(transmission->port, 0, &transmission->mbuf[done], (uint16_t)(packets - done), &failed);
        count_packets(transmission, done, done + accepted, !failed, now);
        done += accepted;
    }
    count_packets(transmission, done, packets, false, now);
    for (; done < packets; ++done) {
        rte_pktmbuf_free(transmission->mbuf[done]);
    }
}

bool transmission_poll(struct transmission *transmission) {
    int64_t due_ns = 0;
    if (unlikely(transmission->end != SENDING)) {
        return false;
    }
    const int64_t now = timebase_ns(transmission->time);
    if (unlikely(transmission->time->steps != transmission->steps)) {
        transmission_stop(transmission, SENDING_CLOCK_STEP);
        return false;
    }
    if (unlikely(!schedule_next(transmission->schedule, &due_ns))) {
        transmission_stop(transmission, SENT_ALL);
        return false;
    }
    /* if no mbufs are free, the driver still holds packets of earlier bursts */
    if (transmission->start_ns + due_ns <= now &&
        rte_pktmbuf_alloc_bulk(transmission->pool, transmission->mbuf, transmission->burst) == 0) {
        const unsigned packets = build_burst(transmission, now);
        if (packets < transmission->burst) {
            rte_pktmbuf_free_bulk(transmission->mbuf + packets, transmission->burst - packets);
        }
        send_burst(transmission, packets, now);
    }
    return true;
}
