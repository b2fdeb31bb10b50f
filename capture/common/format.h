/* The two capture formats, as functions from frames to bytes, and from bytes back to whole records. */
#ifndef ACAPELLA_FORMAT_H
#define ACAPELLA_FORMAT_H

#include <stddef.h>

#include "common/frame.h"

#define FORMAT_HEAD_MAX 2048
#define FORMAT_TAIL_MAX 128

/* What a file says of itself before its first frame. */
struct file_facts {
    const char *program; /* name and version */
    const char *interface;
    const char *filter; /* pcap-filter(7); NULL or empty: none */
    uint32_t snaplen;   /* 0: none */
    uint32_t queue;
};

/* Counts of one queue since the capture began, for an interface statistics block. */
struct interface_statistics {
    uint64_t first_ns, last_ns, now_ns;
    uint64_t received, accepted, dropped, delivered;
};

struct format {
    const char *name;
    size_t first_record; /* bytes before the first block or record that `whole` understands */
    size_t (*head)(uint8_t to[FORMAT_HEAD_MAX], const struct file_facts *facts);
    void (*record)(struct record *to, const struct frame *frame);
    /* Bytes that close a file; 0 where the format has none. */
    size_t (*tail)(uint8_t to[FORMAT_TAIL_MAX], const struct interface_statistics *statistics);
    /* Size of the record at `at`: 0 where `have` bytes do not tell it yet, -1 where this is none. */
    int64_t (*size)(const uint8_t *at, size_t have, bool *is_frame);
};

extern const struct format pcap_format;   /* nanosecond stamps, magic a1b23c4d */
extern const struct format pcapng_format; /* draft-ietf-opsawg-pcapng */

#endif
