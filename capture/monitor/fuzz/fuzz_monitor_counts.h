/* A monitor for the fuzz target in C++, which cannot include headers with C11 atomics. */
#ifndef ACAPELLA_FUZZ_MONITOR_COUNTS_H
#define ACAPELLA_FUZZ_MONITOR_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

/* Opens the monitor with settings selected by the bits of `choice`: filter rules, expected flows, payload
 * pattern, correction of clock drift, start time. Returns 0, or -1 on error. */
int monitor_fuzz_begin(uint8_t choice);

struct monitor_fuzz_identity {
    bool is_valid; /* the packet passed the rules and is not malformed */
    uint64_t high, low;
};

/* Counts a packet that arrives `gap_ns` after the previous one, and returns its identity. */
struct monitor_fuzz_identity monitor_fuzz_packet(const uint8_t *bytes, uint32_t cap_len, uint32_t wire_len,
                                                 int64_t gap_ns);

/* Ends the monitor. Returns 0 if the counts of `packets` packets add up, -1 otherwise. */
int monitor_fuzz_end(uint64_t packets);

#endif
