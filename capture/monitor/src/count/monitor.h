/* Counts the packets of a port, and those of each flow. Independent of DPDK. */
#ifndef ACAPELLA_MONITOR_H
#define ACAPELLA_MONITOR_H

#include <stdatomic.h>

#include "common/stamp.h"
#include "count/flow.h"
#include "count/series.h"
#include "packet/hash.h"
#include "packet/tuple.h"

#define MONITOR_BURST 64
#define MONITOR_NO_STAMP UINT32_MAX
#define MONITOR_LOGGERS 2

/* An expected flow (schemas/generated.json); also a record of the file of --flows. */
struct expected_flow {
    uint64_t sequences;      /* sequence numbers are below this */
    uint32_t stamp_offset;   /* MONITOR_NO_STAMP: its packets have no stamp */
    uint32_t pattern_offset; /* MONITOR_NO_STAMP: no pattern */
    uint32_t pattern;        /* enum pattern */
    uint32_t reserved;
};

/* Corrects latencies for the drift of the sender's clock: arrival minus departure grows by `rate_ppt` *
 * 10^-12 of the time since `from_ns`. */
struct correction {
    int64_t rate_ppt, from_ns;
};

struct monitor_settings {
    uint32_t flows, window;
    const struct expected_flow *expected; /* `flows` records; NULL if unknown. Not owned. */
    /* Used only if `expected` is NULL: whether to check the payload after the stamp, and its pattern. */
    bool checks_pattern;
    enum pattern pattern;
    struct tuple_filter filter;
    struct correction correction;
};

/* received = filtered + foreign + invalid + stamped. Each malformed packet is also one of these. */
struct port_counts {
    _Atomic uint64_t received, bytes;
    _Atomic uint64_t filtered; /* matched no rule */
    _Atomic uint64_t foreign;  /* without a stamp */
    _Atomic uint64_t invalid;  /* stamp of an unknown flow, or with an impossible sequence number */
    _Atomic uint64_t stamped;
    _Atomic uint64_t malformed[MALFORMED_REASONS];
    _Atomic uint64_t unique, duplicates, reordered, unclassified, bit_errors;
    _Atomic int64_t first_ns, last_ns;
};

struct input_packet {
    const uint8_t *bytes;
    uint32_t captured_bytes, wire; /* captured bytes, and length without FCS */
    int64_t arrival_ns;
    bool identified; /* the capture contains the identity of the whole packet */
    struct identity identity;
};

/* A packet that passed the rules, for a logger. */
struct logged_packet {
    const struct input_packet *packet;
    const struct headers *headers;
    const struct stamp *stamp; /* NULL if none */
    struct identity identity;
};

/* Records packets. `end_burst` is called before the bytes of the packets become invalid, or is NULL. */
struct logger {
    void (*log)(void *user, const struct logged_packet *seen);
    void (*end_burst)(void *user);
    void *user;
};

struct monitor {
    struct monitor_settings settings;
    uint32_t *offset; /* of stamps in the expected list, in ascending order; owned */
    uint32_t offsets;
    struct flow_arrays arrays;
    struct port_counts counts;
    uint64_t gaps[HISTOGRAM_SIZE], latencies[HISTOGRAM_SIZE]; /* of the port */
    struct series series;
    /* Expected payload of each pattern. Only PATTERN_PRBS31 differs from packet to packet; it is rewritten
     * each time. */
    uint8_t *expected_payload[PATTERNS];
    uint32_t expected_payload_bytes[PATTERNS]; /* bytes of `expected_payload` that are valid */
    struct logger logger[MONITOR_LOGGERS];
    unsigned loggers;
};

/* Returns 0, or -1 with the reason in fault. */
int monitor_open(struct monitor *monitor, const struct monitor_settings *settings, struct fault *fault);
void monitor_close(struct monitor *monitor);

/* Counts up to MONITOR_BURST packets in the order of their arrival. */
void monitor_burst(struct monitor *monitor, const struct input_packet *packet, unsigned count);

/* Returns true if every received packet was counted once. */
bool monitor_balances(const struct monitor *monitor);

static inline void add_to(_Atomic uint64_t *counter, uint64_t more) {
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

#endif
