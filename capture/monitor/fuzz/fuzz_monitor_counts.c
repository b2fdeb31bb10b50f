#include "fuzz_monitor_counts.h"

#include "count/monitor.h"

#define FLOWS 4

static struct monitor monitor;
static int64_t now_ns;

static const struct expected_flow expected_flows[FLOWS] = {
    {5, 42, 60, PATTERN_COUNTER, 0},
    {UINT64_MAX, 46, 64, PATTERN_PRBS31, 0},
    {9, MONITOR_NO_STAMP, MONITOR_NO_STAMP, PATTERN_ZEROS, 0},
    {UINT64_MAX, 14, 40, PATTERN_AA55, 0},
};

/* Stores the identity of a packet, as a packet log does. */
static void log_packet(void *user, const struct logged_packet *seen) {
    struct monitor_fuzz_identity *identity = user;
    *identity =
        (struct monitor_fuzz_identity){!seen->headers->malformed, seen->identity.high, seen->identity.low};
}

int monitor_fuzz_begin(uint8_t choice) {
    static const char *const rules[] = {"udp,10.0.0.0/9,*,*,1-6000", "*,*,*,fd00::/65,*"};
    struct fault fault;
    struct monitor_settings settings = {
        .flows = FLOWS,
        .window = 64,
        .expected = choice & 1 ? expected_flows : NULL,
        .checks_pattern = choice & 2,
        .pattern = (enum pattern)(choice >> 5 & 3),
        .correction = {choice & 4 ? 123456789 : 0, 0},
    };
    for (unsigned i = 0; choice & 8 && i < sizeof rules / sizeof *rules; ++i) {
        if (tuple_add(&settings.filter, rules[i], &fault) != 0) {
            return -1;
        }
    }
    now_ns = choice & 16 ? INT64_MIN : 1790000000000000000;
    if (monitor_open(&monitor, &settings, &fault) != 0) {
        return -1;
    }
    monitor.logger[monitor.loggers++] = (struct logger){log_packet, NULL, NULL};
    return 0;
}

struct monitor_fuzz_identity monitor_fuzz_packet(const uint8_t *bytes, uint32_t cap_len, uint32_t wire_len,
                                                 int64_t gap_ns) {
    struct monitor_fuzz_identity identity = {false, 0, 0};
    now_ns = (int64_t)((uint64_t)now_ns + (uint64_t)gap_ns);
    const struct input_packet packet = {
        .bytes = bytes, .captured_bytes = cap_len, .wire = wire_len, .arrival_ns = now_ns};
    monitor.logger[0].user = &identity;
    monitor_burst(&monitor, &packet, 1);
    return identity;
}

static bool flows_add_up(void) {
    uint64_t packets = 0, unique = 0, reordered = 0, latencies = 0;
    for (uint32_t i = 0; i < FLOWS; ++i) {
        const struct flow *flow = &monitor.arrays.flow[i];
        packets += flow->packets;
        unique += flow->unique;
        reordered += flow->reordered;
        for (unsigned bucket = 0; bucket < HISTOGRAM_SIZE; ++bucket) {
            latencies += monitor.arrays.latencies[i][bucket];
        }
        if (flow->extent_known > flow->reordered || flow->bit_errors > flow->bits_checked ||
            flow->packets != flow->unique + flow->duplicates + flow->unclassified) {
            return false;
        }
    }
    return packets == monitor.counts.stamped && unique == monitor.counts.unique && latencies == unique &&
           reordered == monitor.counts.reordered;
}

int monitor_fuzz_end(uint64_t packets) {
    const bool good = monitor.counts.received == packets && monitor_balances(&monitor) && flows_add_up();
    monitor_close(&monitor);
    return good ? 0 : -1;
}
