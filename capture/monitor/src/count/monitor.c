#include "count/monitor.h"

#include <stdlib.h>

#include "common/files/blocks.h"

#define PATTERN_MAX CAPTURE_FRAME_MAX

/* A packet of a burst between the passes over it. */
struct pending {
    struct headers headers;
    struct stamp stamp;
    uint32_t stamp_at;
    bool stamped;
    struct arrival arrival;
};

/* Collects the different offsets of the stamps of expected flows. Returns false if there is no memory. */
static bool find_offsets(struct monitor *monitor) {
    const struct monitor_settings *settings = &monitor->settings;
    bool *used = settings->expected ? calloc(CAPTURE_FRAME_MAX, sizeof *used) : NULL;
    for (uint32_t flow = 0; used && flow < settings->flows; ++flow) {
        const uint32_t offset = settings->expected[flow].stamp_offset;
        if (offset < CAPTURE_FRAME_MAX && !used[offset]) { /* MONITOR_NO_STAMP is larger */
            used[offset] = true;
            ++monitor->offsets;
        }
    }
    monitor->offset = malloc((monitor->offsets + 1) * sizeof *monitor->offset);
    uint32_t found = 0;
    for (uint32_t offset = 0; used && monitor->offset && found < monitor->offsets; ++offset) {
        if (used[offset]) {
            monitor->offset[found++] = offset;
        }
    }
    const bool complete = monitor->offset && (used || !settings->expected);
    free(used);
    return complete;
}

int monitor_open(struct monitor *monitor, const struct monitor_settings *settings, struct fault *fault) {
    *monitor = (struct monitor){.settings = *settings};
    uint8_t *expected_payload =
        malloc((size_t)PATTERNS * PATTERN_MAX); /* the kernel provides only pages that are used */
    for (unsigned i = 0; expected_payload && i < PATTERNS; ++i) {
        monitor->expected_payload[i] = expected_payload + (size_t)i * PATTERN_MAX;
    }
    if (!expected_payload || !find_offsets(monitor) ||
        flow_arrays_open(&monitor->arrays, settings->flows, settings->window, settings->expected != NULL) !=
            0) {
        monitor_close(monitor);
        return fail(fault, "out of memory for %u flows; use a smaller --max-flows or --window",
                    settings->flows);
    }
    return 0;
}

void monitor_close(struct monitor *monitor) {
    flow_arrays_close(&monitor->arrays);
    free(monitor->expected_payload[0]);
    monitor->expected_payload[0] = NULL;
    free(monitor->offset);
    monitor->offset = NULL;
}

/* Finds the stamp: after the innermost header, or, if headers_read does not know the headers, at an offset of
 * an expected flow. */
static bool find_stamp(const struct monitor *monitor, const struct input_packet *packet,
                       struct pending *pending) {
    pending->stamp_at = pending->headers.payload_offset;
    if (stamp_read(&pending->stamp, packet->bytes, packet->captured_bytes, pending->stamp_at)) {
        return true;
    }
    for (uint32_t i = 0; i < monitor->offsets && monitor->offset[i] < packet->captured_bytes; ++i) {
        pending->stamp_at = monitor->offset[i];
        if (stamp_read(&pending->stamp, packet->bytes, packet->captured_bytes, pending->stamp_at)) {
            return true;
        }
    }
    return false;
}

static bool stamp_is_possible(const struct monitor *monitor, const struct stamp *stamp) {
    const struct monitor_settings *settings = &monitor->settings;
    if (stamp->flow >= settings->flows) {
        return false;
    }
    /* sequence numbers of flows with more than 2^32 packets wrap: none of them exceeds the limit */
    const uint64_t limit = settings->expected ? settings->expected[stamp->flow].sequences : UINT64_MAX;
    return stamp->sequence < limit;
}

static int64_t correct_latency(const struct correction *correction, int64_t latency_ns, int64_t arrival_ns) {
    __extension__ typedef __int128 int128;
    const int128 drift = (int128)time_since(arrival_ns, correction->from_ns) * correction->rate_ppt;
    const int128 unit = 1000000000000;
    return time_since(latency_ns, (int64_t)(drift / unit - (drift % unit < 0))); /* rounded down */
}

static void log_packet(const struct monitor *monitor, const struct input_packet *packet,
                       const struct pending *pending) {
    const struct logged_packet seen = {
        packet, &pending->headers, pending->stamped ? &pending->stamp : NULL,
        packet->identified ? packet->identity
                           : identity_of(packet->bytes, packet->captured_bytes, &pending->headers)};
    for (unsigned i = 0; i < monitor->loggers; ++i) {
        monitor->logger[i].log(monitor->logger[i].user, &seen);
    }
}

/* Parses a packet. Counts it if it belongs to no flow; otherwise prefetches the counts of its flow. */
static void classify(struct monitor *monitor, const struct input_packet *packet, struct pending *pending) {
    struct port_counts *counts = &monitor->counts;
    headers_read(&pending->headers, packet->bytes, packet->captured_bytes, packet->wire);
    pending->stamped = false;
    if (pending->headers.malformed) {
        add_to(&counts->malformed[pending->headers.malformed], 1);
    }
    if (!tuple_passes(&monitor->settings.filter, packet->bytes, &pending->headers)) {
        add_to(&counts->filtered, 1);
        return;
    }
    const bool found = find_stamp(monitor, packet, pending);
    pending->stamped = found && stamp_is_possible(monitor, &pending->stamp);
    if (pending->stamped) {
        pending->arrival = (struct arrival){
            .flow = pending->stamp.flow,
            .sequence = pending->stamp.sequence,
            .arrival_ns = packet->arrival_ns,
            .latency_ns = time_since(packet->arrival_ns, pending->stamp.departure_ns),
            .wire_bytes = packet->wire,
        };
        if (monitor->settings.correction.rate_ppt) {
            pending->arrival.latency_ns = correct_latency(&monitor->settings.correction,
                                                          pending->arrival.latency_ns, packet->arrival_ns);
        }
        flow_prefetch(&monitor->arrays, &pending->arrival);
    } else {
        add_to(found ? &counts->invalid : &counts->foreign, 1);
    }
    if (monitor->loggers > 0) {
        log_packet(monitor, packet, pending);
    }
}

/* Returns the expected payload of a packet. */
static const uint8_t *get_expected_payload(struct monitor *monitor, enum pattern pattern, uint32_t bytes,
                                           const struct stamp *stamp) {
    uint8_t *expected_payload = monitor->expected_payload[pattern];
    if (pattern == PATTERN_PRBS31 || bytes > monitor->expected_payload_bytes[pattern]) {
        pattern_write(pattern, expected_payload, bytes, stamp->flow, stamp->sequence);
        monitor->expected_payload_bytes[pattern] = bytes;
    }
    return expected_payload;
}

static uint64_t count_bit_errors(const uint8_t *a, const uint8_t *b, uint32_t bytes) {
    uint64_t errors = 0;
    for (; bytes >= 8; a += 8, b += 8, bytes -= 8) {
        uint64_t x, y;
        memcpy(&x, a, sizeof x);
        memcpy(&y, b, sizeof y);
        errors += (uint64_t)__builtin_popcountll(x ^ y);
    }
    for (; bytes > 0; ++a, ++b, --bytes) {
        errors += (uint64_t)__builtin_popcount((unsigned)(*a ^ *b));
    }
    return errors;
}

/* Compares the payload after the stamp with its pattern, up to the end of the IP packet or the frame. */
static void check_pattern(struct monitor *monitor, const struct input_packet *packet,
                          const struct pending *pending) {
    const struct monitor_settings *settings = &monitor->settings;
    enum pattern pattern = settings->pattern;
    uint64_t at = (uint64_t)pending->stamp_at + STAMP_BYTES;
    if (settings->expected) {
        const struct expected_flow *expected = &settings->expected[pending->stamp.flow];
        if (expected->pattern_offset == MONITOR_NO_STAMP || expected->stamp_offset == MONITOR_NO_STAMP) {
            return;
        }
        /* tags may have been added or removed on the path */
        at = (uint64_t)pending->stamp_at + expected->pattern_offset - expected->stamp_offset;
        pattern = (enum pattern)expected->pattern;
    } else if (!settings->checks_pattern) {
        return;
    }
    const uint32_t end = pending->headers.end;
    if (at >= end) {
        return;
    }
    const uint32_t bytes = end - (uint32_t)at < PATTERN_MAX ? end - (uint32_t)at : PATTERN_MAX;
    const uint8_t *expected_payload = get_expected_payload(monitor, pattern, bytes, &pending->stamp);
    const uint8_t *payload = packet->bytes + at;
    const uint64_t errors = memcmp(payload, expected_payload, bytes) == 0
                                ? 0
                                : count_bit_errors(payload, expected_payload, bytes);
    struct flow *flow = &monitor->arrays.flow[pending->stamp.flow];
    flow->bits_checked += (uint64_t)bytes * 8;
    if (errors) {
        flow->bit_errors += errors;
        flow->errored_packets++;
        add_to(&monitor->counts.bit_errors, errors);
    }
}

static void count_stamped(struct monitor *monitor, const struct input_packet *packet, struct pending *pending,
                          struct interval *interval) {
    struct arrival *arrival = &pending->arrival;
    struct flow *flow = &monitor->arrays.flow[arrival->flow];
    const enum arrival_class class = flow_count(&monitor->arrays, arrival);
    if (pending->headers.malformed) {
        flow->malformed++;
    }
    check_pattern(monitor, packet, pending);
    struct port_counts *counts = &monitor->counts;
    add_to(&counts->stamped, 1);
    if (class == ARRIVAL_DUPLICATE || class == ARRIVAL_UNCLASSIFIED) {
        add_to(class == ARRIVAL_DUPLICATE ? &counts->duplicates : &counts->unclassified, 1);
        return;
    }
    add_to(&counts->unique, 1);
    if (class == ARRIVAL_REORDERED) {
        add_to(&counts->reordered, 1);
    }
    monitor->latencies[arrival->latency_bucket]++;
    if (interval->first_copies == 0 || arrival->latency_ns < interval->latency_min_ns) {
        interval->latency_min_ns = arrival->latency_ns;
        interval->latency_at_ns = arrival->arrival_ns;
    }
    interval->first_copies++;
}

static void count_packet(struct monitor *monitor, const struct input_packet *packet,
                         struct pending *pending) {
    struct port_counts *counts = &monitor->counts;
    const int64_t now_ns = packet->arrival_ns;
    if (atomic_load_explicit(&counts->received, memory_order_relaxed) == 0) {
        atomic_store_explicit(&counts->first_ns, now_ns, memory_order_relaxed);
    } else {
        const int64_t last_ns = atomic_load_explicit(&counts->last_ns, memory_order_relaxed);
        monitor->gaps[histogram_bucket(time_since(now_ns, last_ns))]++;
    }
    atomic_store_explicit(&counts->last_ns, now_ns, memory_order_relaxed);
    add_to(&counts->received, 1);
    add_to(&counts->bytes, packet->wire);
    struct interval *interval = series_at(&monitor->series, now_ns);
    interval->packets++;
    interval->bytes += packet->wire;
    if (pending->stamped) {
        count_stamped(monitor, packet, pending, interval);
    }
}

void monitor_burst(struct monitor *monitor, const struct input_packet *packet, unsigned count) {
    struct pending pending[MONITOR_BURST];
    for (unsigned i = 0; i < count; ++i) {
        classify(monitor, &packet[i], &pending[i]);
    }
    for (unsigned i = 0; i < count; ++i) {
        count_packet(monitor, &packet[i], &pending[i]);
    }
    for (unsigned i = 0; i < count; ++i) {
        if (pending[i].stamped) {
            flow_count_histograms(&monitor->arrays, &pending[i].arrival);
        }
    }
    for (unsigned i = 0; i < monitor->loggers; ++i) {
        if (monitor->logger[i].end_burst) {
            monitor->logger[i].end_burst(monitor->logger[i].user);
        }
    }
}

bool monitor_balances(const struct monitor *monitor) {
    const struct port_counts *counts = &monitor->counts;
    return counts->received == counts->filtered + counts->foreign + counts->invalid + counts->stamped &&
           counts->stamped == counts->unique + counts->duplicates + counts->unclassified;
}
