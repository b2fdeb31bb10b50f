/* A monitor for the fuzz target in C++, which cannot include headers with C11 atomics. */
#ifndef ACAPELLA_FUZZ_MONITOR_COUNTS_H
#define ACAPELLA_FUZZ_MONITOR_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

/* Begins with settings that depend on `choice`: rules, expected flows, patterns, a correction. 0, or -1. */
int monitor_fuzz_begin(uint8_t choice);

struct monitor_fuzz_identity {
    bool is_whole; /* the packet passed the rules and is not malformed */
    uint64_t high, low;
};

/* Counts a packet that arrives some time after the previous one, and returns its identity. */
struct monitor_fuzz_identity monitor_fuzz_packet(const uint8_t *bytes, uint32_t kept, uint32_t wire,
                                                 int64_t later_ns);

/* Ends the monitor. Returns 0 if the counts of `packets` packets add up. */
int monitor_fuzz_end(uint64_t packets);

#endif
