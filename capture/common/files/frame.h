/* A frame to be written, and its record in a file. This header does not depend on DPDK. */
#ifndef ACAPELLA_FRAME_H
#define ACAPELLA_FRAME_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

/* Option of an enhanced packet block, with a code for local use. It contains IDENTITY_MARK and the 128-bit
 * identity of the whole packet, most significant byte first, and identifies packets that were truncated. */
#define IDENTITY_OPTION 0x8001
#define IDENTITY_MARK "ACID"
#define IDENTITY_BYTES 16

#define FRAME_SEGMENTS 16 /* 64 KiB in mbufs of 4 KiB */

struct frame {
    uint64_t ts_ns;      /* since 1970-01-01 UTC */
    uint32_t wire_bytes; /* without FCS */
    uint32_t kept_bytes; /* captured length: the sum of the segments */
    uint32_t queue;
    uint32_t interface;  /* number in a pcapng */
    const char *comment; /* in a pcapng, at most 12 bytes; NULL if none */
    bool hashed, numbered;
    bool identified;      /* in a pcapng, instead of the CRC32 and the comment */
    uint64_t identity[2]; /* high and low half */
    uint32_t crc32;       /* of the whole frame, as zlib computes it */
    uint32_t number;      /* counts the frames that the P4 program received, from 0 */
    struct iovec segment[FRAME_SEGMENTS];
    unsigned segments;
};

/* A record: header, the frame's bytes (not copied), trailer. */
struct record {
    uint8_t head[32];
    uint32_t head_bytes;
    const struct frame *frame;
    uint8_t tail[64];
    uint32_t tail_bytes;
};

static inline uint32_t record_bytes(const struct record *record) {
    return record->head_bytes + record->frame->kept_bytes + record->tail_bytes;
}

#endif
