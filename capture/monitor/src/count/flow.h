/* The counts of one flow, updated with every packet.
 *
 * A sequence number is extended to 64 bits: to the value, congruent modulo 2^32, that is nearest to the next
 * expected one. `next` is NextExp of RFC 4737, section 3.3. A window of bits distinguishes first copies from
 * duplicates; packets that are older than the window are unclassified. Latency, jitter and reordering are
 * those of first copies (RFC 7679, section 3.5; RFC 4737, section 3.6). */
#ifndef ACAPELLA_FLOW_H
#define ACAPELLA_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "count/histogram.h"

#define FLOW_BREAKS 32 /* latest sequence discontinuities, to find the extent of reordering */

/* A packet whose sequence number was larger than the next expected one, or the first one of the flow. */
struct flow_break {
    int64_t sequence;
    uint64_t arrived; /* first copies of the flow before this packet */
    int64_t arrival_ns;
};

/* A record of a result file: only 64-bit fields. Those that most packets change are in the first 128
 * bytes. */
struct flow {
    _Alignas(64) uint64_t packets; /* with a stamp of this flow, including duplicates */
    uint64_t bytes;
    uint64_t unique; /* first copies */
    int64_t next;    /* next expected sequence number */
    int64_t last_arrival_ns;
    int64_t last_latency_ns; /* of the previous first copy */
    uint64_t jitter_16;      /* 16 times the jitter in ns (RFC 3550, appendix A.8) */
    uint64_t latency_sum[2]; /* low and high half */
    int64_t latency_min_ns, latency_max_ns;
    int64_t gap_min_ns, gap_max_ns;
    uint64_t jitter_max_16;
    uint64_t bits_checked;
    int64_t first_arrival_ns;
    /* below: changed by rare events */
    int64_t lowest; /* sequence number */
    uint64_t duplicates, reordered, unclassified;
    uint64_t discontinuities;
    uint64_t extent_known, extent_sum, extent_max; /* of reordered packets (RFC 4737, section 4.2) */
    int64_t late_max_ns;                           /* RFC 4737, section 4.3 */
    uint64_t bit_errors, errored_packets;
    uint64_t breaks;    /* number of breaks so far */
    uint64_t malformed; /* packets with a malformed header, included in `packets` */
    uint64_t reserved[3];
};

/* Arrays with an entry per flow. */
struct flow_arrays {
    struct flow *flow;
    uint64_t *window; /* `window_words` words per flow */
    uint32_t window_words;
    uint64_t (*gaps)[HISTOGRAM_SIZE], (*latencies)[HISTOGRAM_SIZE];
    struct flow_break (*breaks)[FLOW_BREAKS];
    uint32_t flows;
    bool from_zero; /* the first sequence number of a flow is known to be 0 */
    void *memory;
    uint64_t memory_bytes;
};

/* Returns the difference of two times modulo 2^64, because times of damaged stamps may be anything. */
static inline int64_t time_since(int64_t later_ns, int64_t earlier_ns) {
    return (int64_t)((uint64_t)later_ns - (uint64_t)earlier_ns);
}

enum arrival_class { ARRIVAL_IN_ORDER, ARRIVAL_REORDERED, ARRIVAL_DUPLICATE, ARRIVAL_UNCLASSIFIED };

/* An arrival at a flow. */
struct arrival {
    uint32_t flow, sequence;
    int64_t arrival_ns, latency_ns;
    uint32_t wire_bytes;
    uint16_t gap_bucket, latency_bucket; /* set by flow_count; HISTOGRAM_SIZE: none */
};

/* Reserves zeroed memory for `flows` flows. `window` is in packets: a power of two, at least 64. Returns 0,
 * or -1. */
int flow_arrays_open(struct flow_arrays *arrays, uint32_t flows, uint32_t window, bool from_zero);
void flow_arrays_close(struct flow_arrays *arrays);

/* Prefetches what flow_count reads and writes. */
static inline void flow_prefetch(const struct flow_arrays *arrays, const struct arrival *arrival) {
    const char *flow = (const char *)&arrays->flow[arrival->flow];
    const uint32_t word = arrival->sequence / 64 & (arrays->window_words - 1);
    __builtin_prefetch(flow, 1);
    __builtin_prefetch(flow + 64, 1);
    __builtin_prefetch(&arrays->window[(uint64_t)arrival->flow * arrays->window_words + word], 1);
}

/* Counts an arrival, except in histograms, whose buckets it finds and prefetches. Returns its class, so that
 * callers need not read the counts of rare events, which are not prefetched. */
enum arrival_class flow_count(const struct flow_arrays *arrays, struct arrival *arrival);

static inline void flow_count_histograms(const struct flow_arrays *arrays, const struct arrival *arrival) {
    if (arrival->gap_bucket < HISTOGRAM_SIZE) {
        arrays->gaps[arrival->flow][arrival->gap_bucket]++;
    }
    if (arrival->latency_bucket < HISTOGRAM_SIZE) {
        arrays->latencies[arrival->flow][arrival->latency_bucket]++;
    }
}

#endif
