/* The headers before each frame: ingress, from the loader to the program, and egress, from the program to the
 * loader. Big-endian.
 *
 * ingress, 24 bytes   egress, 40 bytes
 * 0  timestamp_ns     0  timestamp_ns
 * 8  wire_length      8  wire_length
 * 12 captured_length  12 length: bytes of the frame to keep
 * 16 port             16 port
 * 20 flags            20 sequence: frames received on this port before
 *                     24 hash
 *                     28 kind, 29 reason
 *                     30 flags, 2 bytes
 *                     32 reserved */
#ifndef ACAPELLA_P4_WIRE_H
#define ACAPELLA_P4_WIRE_H

#include <stdint.h>
#include <string.h>

#define WIRE_INGRESS 24
#define WIRE_EGRESS 40
#define WIRE_PADDED 512 /* bytes after the ingress header that a program may always read */

enum wire_ingress_flag { WIRE_PROBE = 1 };
enum wire_egress_flag { WIRE_FIRST = 1 }; /* the first report of its flow in this epoch, sent or not */
/* Programs use the first two; the guards of guard.h use the others. */
enum wire_out { WIRE_OUT, WIRE_SINK, WIRE_WRONG, WIRE_DROP, WIRE_OUTS };

static inline void wire_put32(uint8_t *to, uint32_t value) {
    const uint32_t big = __builtin_bswap32(value);
    memcpy(to, &big, 4);
}

static inline void wire_put64(uint8_t *to, uint64_t value) {
    const uint64_t big = __builtin_bswap64(value);
    memcpy(to, &big, 8);
}

static inline uint32_t wire_get32(const uint8_t *from) {
    uint32_t big;
    memcpy(&big, from, 4);
    return __builtin_bswap32(big);
}

static inline uint64_t wire_get64(const uint8_t *from) {
    uint64_t big;
    memcpy(&big, from, 8);
    return __builtin_bswap64(big);
}

#endif
