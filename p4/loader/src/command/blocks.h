/* Frames of a pcapng file (draft-ietf-opsawg-pcapng). libpcap refuses a file whose interfaces differ in link
 * type or snap length; here each interface has its own snap length and time resolution. */
#ifndef ACAPELLA_P4_BLOCKS_H
#define ACAPELLA_P4_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>
#include <zlib.h>

#include "common/fault.h"

struct blocks;

struct blocks_frame {
    int64_t ts_ns; /* since 1970-01-01 UTC; the nearest one that fits */
    bool timed;    /* false: a simple packet block, which has no time; ts_ns is 0 */
    uint32_t wire_bytes, kept_bytes;
    uint32_t link_type;
    const uint8_t *bytes; /* until the next call */
};

enum blocks_result { BLOCKS_FRAME, BLOCKS_END, BLOCKS_TRUNCATED, BLOCKS_ERROR };

/* Whether a file that begins with this byte can be pcapng; no pcap file begins with it. */
#define BLOCKS_FIRST_BYTE 0x0a

/* `file` stays the caller's. NULL: out of memory. */
struct blocks *p4_blocks_open(gzFile file);

/* The next frame; BLOCKS_TRUNCATED: the file ends within a block, BLOCKS_ERROR: see fault, which does not
 * name the file. */
enum blocks_result p4_blocks_next(struct blocks *blocks, struct blocks_frame *frame, struct fault *fault);

void p4_blocks_free(struct blocks *blocks);

#endif
