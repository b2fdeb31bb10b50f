/* The two capture formats: functions that encode frames, and find whole records in a file. */
#ifndef ACAPELLA_FORMAT_H
#define ACAPELLA_FORMAT_H

#include <stddef.h>

#include "common/files/frame.h"

#define FORMAT_HEAD_MAX 2048
#define FORMAT_TAIL_MAX 128

/* Metadata in the header of a file. */
struct file_info {
    const char *program; /* name and version */
    const char *interface;
    const char *description; /* of the interface, in a pcapng; NULL if none */
    const char *filter;      /* pcap-filter(7); NULL or empty if none */
    uint32_t snaplen;        /* 0: none */
    uint32_t queue;
};

/* Counts of one queue since the start of the capture, for an interface statistics block. */
struct interface_statistics {
    uint64_t first_ns, last_ns, now_ns;
    uint64_t received, accepted, dropped, delivered;
};

struct format {
    const char *name;
    size_t first_record; /* offset of the first block or record that `size` accepts */
    size_t (*head)(uint8_t to[FORMAT_HEAD_MAX], const struct file_info *info);
    void (*record)(struct record *to, const struct frame *frame);
    /* Encodes the end of a file; returns its size, 0 if the format has none. */
    size_t (*tail)(uint8_t to[FORMAT_TAIL_MAX], const struct interface_statistics *statistics);
    /* Returns the size of the record at `at`: 0 if `have` bytes are too few to determine it, -1 if it is not
     * a record. */
    int64_t (*size)(const uint8_t *at, size_t have, bool *is_frame);
};

extern const struct format pcap_format;   /* timestamps in ns, magic a1b23c4d */
extern const struct format pcapng_format; /* draft-ietf-opsawg-pcapng */

/* Returns the format of PATH.pcap or PATH.pcapng, or NULL for a different suffix. */
const struct format *format_of_path(const char *path);

/* Encodes the description of an additional interface of a pcapng file. Returns its size. */
size_t pcapng_interface(uint8_t to[FORMAT_HEAD_MAX], const struct file_info *info);

#endif
