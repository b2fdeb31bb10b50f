#include "count/flow.h"

#include <stddef.h>
#include <sys/mman.h>

#define CACHE_LINE 64

static uint64_t round_up(uint64_t bytes) { return (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE; }

int flow_arrays_open(struct flow_arrays *arrays, uint32_t flows, uint32_t window, bool from_zero) {
    *arrays = (struct flow_arrays){.window_words = window / 64, .flows = flows, .from_zero = from_zero};
    const uint64_t parts[] = {
        round_up(flows * sizeof *arrays->flow),   round_up((uint64_t)flows * arrays->window_words * 8),
        round_up(flows * sizeof *arrays->gaps),   round_up(flows * sizeof *arrays->latencies),
        round_up(flows * sizeof *arrays->breaks),
    };
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; ++i) {
        arrays->memory_bytes += parts[i];
    }
    /* The kernel provides a page when it is first used, so that unused flows need no memory. */
    char *at = mmap(NULL, arrays->memory_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        return -1;
    }
    madvise(at, arrays->memory_bytes, MADV_HUGEPAGE); /* fewer TLB misses; a failure does not matter */
    arrays->memory = at;
    arrays->flow = (void *)at;
    arrays->window = (void *)(at += parts[0]);
    arrays->gaps = (void *)(at += parts[1]);
    arrays->latencies = (void *)(at += parts[2]);
    arrays->breaks = (void *)(at + parts[3]);
    return 0;
}

void flow_arrays_close(struct flow_arrays *arrays) {
    if (arrays->memory) {
        munmap(arrays->memory, arrays->memory_bytes);
    }
    *arrays = (struct flow_arrays){.memory = NULL};
}

static bool bit_is_set(const uint64_t *window, uint32_t words, int64_t sequence) {
    return window[(uint64_t)sequence / 64 & (words - 1)] >> ((uint64_t)sequence & 63) & 1;
}

static void set_bit(uint64_t *window, uint32_t words, int64_t sequence) {
    window[(uint64_t)sequence / 64 & (words - 1)] |= 1ULL << ((uint64_t)sequence & 63);
}

/* Clears the bits of sequence numbers that were skipped. */
static void clear_bits(uint64_t *window, uint32_t words, int64_t from, int64_t to) {
    if (to - from >= (int64_t)words * 64) {
        for (uint32_t i = 0; i < words; ++i) {
            window[i] = 0;
        }
        return;
    }
    for (int64_t sequence = from; sequence < to; ++sequence) {
        window[(uint64_t)sequence / 64 & (words - 1)] &= ~(1ULL << ((uint64_t)sequence & 63));
    }
}

static void add_break(const struct flow_arrays *arrays, const struct arrival *arrival, int64_t sequence) {
    struct flow *flow = &arrays->flow[arrival->flow];
    arrays->breaks[arrival->flow][flow->breaks % FLOW_BREAKS] =
        (struct flow_break){sequence, flow->unique, arrival->arrival_ns};
    flow->breaks++;
}

/* Counts a reordered packet. The earliest packet with a larger sequence number, which defines its extent and
 * its lateness, is the first one after the gap that contained it (RFC 4737, sections 4.2 and 4.3). */
static void count_reordered(const struct flow_arrays *arrays, const struct arrival *arrival,
                            int64_t sequence) {
    struct flow *flow = &arrays->flow[arrival->flow];
    const struct flow_break *breaks = arrays->breaks[arrival->flow];
    const uint64_t oldest = flow->breaks > FLOW_BREAKS ? flow->breaks - FLOW_BREAKS : 0;
    flow->reordered++;
    uint64_t low = oldest, high = flow->breaks;
    while (low < high) { /* sequence numbers of breaks increase */
        const uint64_t middle = low + (high - low) / 2;
        if (breaks[middle % FLOW_BREAKS].sequence > sequence) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    if (low == flow->breaks || (low == oldest && oldest > 0)) {
        return; /* an earlier break, which is no longer known, may be the first one */
    }
    const struct flow_break *found = &breaks[low % FLOW_BREAKS];
    const uint64_t extent = flow->unique - found->arrived;
    const int64_t late_ns = time_since(arrival->arrival_ns, found->arrival_ns);
    flow->extent_known++;
    flow->extent_sum += extent;
    flow->extent_max = extent > flow->extent_max ? extent : flow->extent_max;
    flow->late_max_ns = late_ns > flow->late_max_ns ? late_ns : flow->late_max_ns;
}

/* Classifies a packet by its sequence number. */
static enum arrival_class count_sequence(const struct flow_arrays *arrays, const struct arrival *arrival) {
    struct flow *flow = &arrays->flow[arrival->flow];
    const uint32_t words = arrays->window_words;
    uint64_t *window = &arrays->window[(uint64_t)arrival->flow * words];
    const bool first = flow->packets == 0;
    enum arrival_class class = ARRIVAL_IN_ORDER;
    if (first) {
        flow->next = arrays->from_zero ? 0 : arrival->sequence;
        flow->lowest = INT64_MAX;
    }
    const int64_t sequence = flow->next + (int32_t)(arrival->sequence - (uint32_t)flow->next);
    if (sequence >= flow->next) {
        if (sequence > flow->next) {
            flow->discontinuities++;
            clear_bits(window, words, flow->next, sequence);
        }
        if (sequence > flow->next || first) {
            add_break(arrays, arrival, sequence);
        }
        set_bit(window, words, sequence);
        flow->next = sequence + 1;
    } else if (flow->next - sequence > (int64_t)words * 64) {
        flow->unclassified++;
        return ARRIVAL_UNCLASSIFIED;
    } else if (bit_is_set(window, words, sequence)) {
        flow->duplicates++;
        return ARRIVAL_DUPLICATE;
    } else {
        set_bit(window, words, sequence);
        count_reordered(arrays, arrival, sequence);
        class = ARRIVAL_REORDERED;
    }
    if (first || class == ARRIVAL_REORDERED || flow->unique == 0) {
        flow->lowest = sequence < flow->lowest ? sequence : flow->lowest;
    }
    return class;
}

/* Jitter J += (|D| - J) / 16 with the rounding of RFC 3550, appendix A.8; D is the difference of the
 * latencies of two packets in the order of their arrival. */
static void count_latency(struct flow *flow, int64_t latency_ns, bool first) {
    if (first) {
        flow->latency_min_ns = flow->latency_max_ns = latency_ns;
    } else {
        const int64_t difference = time_since(latency_ns, flow->last_latency_ns);
        const uint64_t size = difference < 0 ? 0 - (uint64_t)difference : (uint64_t)difference;
        flow->jitter_16 += size - ((flow->jitter_16 + 8) >> 4);
        flow->jitter_max_16 = flow->jitter_16 > flow->jitter_max_16 ? flow->jitter_16 : flow->jitter_max_16;
        flow->latency_min_ns = latency_ns < flow->latency_min_ns ? latency_ns : flow->latency_min_ns;
        flow->latency_max_ns = latency_ns > flow->latency_max_ns ? latency_ns : flow->latency_max_ns;
    }
    flow->last_latency_ns = latency_ns;
    const uint64_t low = flow->latency_sum[0] + (uint64_t)latency_ns;
    flow->latency_sum[1] += (low < flow->latency_sum[0]) + (latency_ns < 0 ? UINT64_MAX : 0);
    flow->latency_sum[0] = low;
}

static unsigned count_gap(struct flow *flow, int64_t arrival_ns) {
    const int64_t gap_ns = time_since(arrival_ns, flow->last_arrival_ns);
    if (flow->packets == 1) {
        flow->gap_min_ns = flow->gap_max_ns = gap_ns;
    } else {
        flow->gap_min_ns = gap_ns < flow->gap_min_ns ? gap_ns : flow->gap_min_ns;
        flow->gap_max_ns = gap_ns > flow->gap_max_ns ? gap_ns : flow->gap_max_ns;
    }
    return histogram_bucket(gap_ns);
}

enum arrival_class flow_count(const struct flow_arrays *arrays, struct arrival *arrival) {
    struct flow *flow = &arrays->flow[arrival->flow];
    const enum arrival_class class = count_sequence(arrays, arrival);
    arrival->gap_bucket = arrival->latency_bucket = HISTOGRAM_SIZE;
    if (class == ARRIVAL_IN_ORDER || class == ARRIVAL_REORDERED) {
        count_latency(flow, arrival->latency_ns, flow->unique == 0);
        flow->unique++;
        arrival->latency_bucket = (uint16_t)histogram_bucket(arrival->latency_ns);
        __builtin_prefetch(&arrays->latencies[arrival->flow][arrival->latency_bucket], 1);
    }
    if (flow->packets > 0) {
        arrival->gap_bucket = (uint16_t)count_gap(flow, arrival->arrival_ns);
        __builtin_prefetch(&arrays->gaps[arrival->flow][arrival->gap_bucket], 1);
    } else {
        flow->first_arrival_ns = arrival->arrival_ns;
    }
    flow->last_arrival_ns = arrival->arrival_ns;
    flow->packets++;
    flow->bytes += arrival->wire_bytes;
    return class;
}
