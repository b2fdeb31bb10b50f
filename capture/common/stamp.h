/* The stamp in generated packets and the payload patterns after it (schemas/stamp.json). Independent of DPDK.
 */
#ifndef ACAPELLA_STAMP_H
#define ACAPELLA_STAMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define STAMP_BYTES 18
#define STAMP_MAGIC 0xACA9
#define STAMP_AT_FLOW 2
#define STAMP_AT_SEQUENCE 6
#define STAMP_AT_SECONDS 10
#define STAMP_AT_FRACTION 14
#define STAMP_NS_PER_SECOND 1000000000ULL

enum pattern { PATTERN_ZEROS, PATTERN_ONES, PATTERN_AA55, PATTERN_COUNTER, PATTERN_PRBS31, PATTERNS };

struct stamp {
    uint32_t flow, sequence;
    int64_t departure_ns; /* since 1970-01-01 UTC */
};

static inline void stamp_put(uint8_t *to, uint32_t value) {
    const uint32_t big = __builtin_bswap32(value); /* the programs support little-endian machines only */
    memcpy(to, &big, sizeof big);
}

static inline uint32_t stamp_get(const uint8_t *from) {
    uint32_t big;
    memcpy(&big, from, sizeof big);
    return __builtin_bswap32(big);
}

/* Writes STAMP_BYTES bytes. */
static inline void stamp_write(uint8_t *to, uint32_t flow, uint32_t sequence, int64_t departure_ns) {
    const uint64_t ns = (uint64_t)departure_ns;
    const uint64_t rest = ns % STAMP_NS_PER_SECOND;
    to[0] = STAMP_MAGIC >> 8;
    to[1] = STAMP_MAGIC & 0xff;
    stamp_put(to + STAMP_AT_FLOW, flow);
    stamp_put(to + STAMP_AT_SEQUENCE, sequence);
    stamp_put(to + STAMP_AT_SECONDS, (uint32_t)(ns / STAMP_NS_PER_SECOND));
    stamp_put(to + STAMP_AT_FRACTION, (uint32_t)((rest << 32) / STAMP_NS_PER_SECOND));
}

/* Reads the stamp at `offset` of a packet of which `bytes` are available. Returns false if it has none. */
static inline bool stamp_read(struct stamp *stamp, const uint8_t *packet, size_t bytes, size_t offset) {
    if (bytes < STAMP_BYTES || offset > bytes - STAMP_BYTES) {
        return false;
    }
    const uint8_t *from = packet + offset;
    if (from[0] != STAMP_MAGIC >> 8 || from[1] != (STAMP_MAGIC & 0xff)) {
        return false;
    }
    const uint64_t fraction = stamp_get(from + STAMP_AT_FRACTION);
    const uint64_t ns = (fraction * STAMP_NS_PER_SECOND + (1ULL << 31)) >> 32;
    stamp->flow = stamp_get(from + STAMP_AT_FLOW);
    stamp->sequence = stamp_get(from + STAMP_AT_SEQUENCE);
    stamp->departure_ns = (int64_t)(stamp_get(from + STAMP_AT_SECONDS) * STAMP_NS_PER_SECOND + ns);
    return true;
}

/* SplitMix64's output function for the state before the increment. */
static inline uint64_t mix64(uint64_t value) {
    value += 0x9e3779b97f4a7c15ULL;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ value >> 27) * 0x94d049bb133111ebULL;
    return value ^ value >> 31;
}

#define PRBS_STEP 7 /* bytes that are computed at once */

/* Computes the next 56 bits of PRBS 2^31-1 from the latest 62 bits: the square of the polynomial is
 * x^62 + x^56 + 1. */
static inline uint64_t prbs31_next(uint64_t *history) {
    const uint64_t next = (*history >> 6 ^ *history) & ((1ULL << 56) - 1);
    *history = (*history << 56 | next) & ((1ULL << 62) - 1);
    return next;
}

/* Writes PRBS 2^31-1. */
static inline void pattern_prbs31(uint8_t *to, size_t bytes, uint32_t flow, uint32_t sequence) {
    const uint64_t mask = 0x7fffffff, seed = mix64((uint64_t)flow << 32 | sequence) & mask;
    uint64_t history = seed ? seed : 1;
    /* the first 31 bits: the last 3 of them depend on the first 3 */
    history = history << 28 | ((history >> 3 ^ history) & ((1U << 28) - 1));
    history = history << 3 | ((history >> 28 ^ history >> 25) & 7);
    uint64_t waiting = history & mask; /* 31 bits that were computed but not written */
    while (bytes) {
        const uint64_t next = prbs31_next(&history);
        const uint64_t word = __builtin_bswap64(~(waiting << 25 | next >> 31) << 8);
        const size_t size = bytes < PRBS_STEP ? bytes : PRBS_STEP;
        waiting = next & mask;
        memcpy(to, &word, bytes > PRBS_STEP ? sizeof word : size);
        to += size;
        bytes -= size;
    }
}

/* Writes the first `bytes` bytes of a pattern to `to`. */
static inline void pattern_write(enum pattern pattern, uint8_t *to, size_t bytes, uint32_t flow,
                                 uint32_t sequence) {
    switch (pattern) {
        case PATTERN_ONES:
            memset(to, 0xff, bytes);
            break;
        case PATTERN_AA55:
            for (size_t i = 0; i < bytes; ++i) {
                to[i] = i & 1 ? 0x55 : 0xaa;
            }
            break;
        case PATTERN_COUNTER:
            for (size_t i = 0; i < bytes; ++i) {
                to[i] = (uint8_t)i;
            }
            break;
        case PATTERN_PRBS31:
            pattern_prbs31(to, bytes, flow, sequence);
            break;
        default:
            memset(to, 0, bytes);
            break;
    }
}

#endif
