/* Reads frames of a pcapng file (draft-ietf-opsawg-pcapng). libpcap rejects files whose interfaces differ in
 * link type or snap length; here, each interface has its own link type and snap length. */
#ifndef ACAPELLA_BLOCKS_H
#define ACAPELLA_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>
#include <zlib.h>

#include "common/fault.h"

struct blocks;

struct blocks_frame {
    int64_t ts_ns; /* since 1970-01-01 UTC; clamped to the range of int64_t */
    bool timed;    /* false: a simple packet block, which has no time; ts_ns is 0 */
    uint32_t wire_bytes, kept_bytes;
    uint32_t link_type;
    uint32_t interface;      /* number in its section, from 0 */
    const uint8_t *bytes;    /* until the next call */
    const uint8_t *identity; /* IDENTITY_BYTES bytes, until the next call; NULL if none (frame.h) */
};

enum blocks_result { BLOCKS_FRAME, BLOCKS_END, BLOCKS_TRUNCATED, BLOCKS_ERROR };

#define CAPTURE_FRAME_MAX 262144 /* longest frame in bytes: pcap's value for no limit */

/* First byte of pcapng files; no pcap file begins with it. */
#define BLOCKS_FIRST_BYTE 0x0a

/* The caller closes `file`. Returns NULL if out of memory. */
struct blocks *blocks_open(gzFile file);

/* Reads the next frame. Returns BLOCKS_TRUNCATED if the file ends within a block, and BLOCKS_ERROR with the
 * reason in fault, which does not name the file. */
enum blocks_result blocks_next(struct blocks *blocks, struct blocks_frame *frame, struct fault *fault);

void blocks_free(struct blocks *blocks);

#endif
