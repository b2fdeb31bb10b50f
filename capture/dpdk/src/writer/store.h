/* How bytes of records get to the disk: a queue's thread puts records, a store writes them.
 *
 *   direct    io_uring and O_DIRECT from a ring of aligned buffers; the page cache is not used
 *   buffered  one writev a burst, from where the frames are
 *   sink      copied, counted, forgotten: what receiving alone can do
 */
#ifndef ACAPELLA_STORE_H
#define ACAPELLA_STORE_H

#include <stddef.h>

#include "writer/file.h"

#define STORE_COPIED \
    64 /* pieces up to this size are copied at once; longer ones have to stay until `burst` */

struct store_settings {
    struct files *files;
    unsigned buffers;
    size_t buffer_bytes; /* a multiple of FILE_ALIGN */
    uint64_t flush_ns;   /* whole blocks wait no longer for their buffer to be full */
};

struct store;

struct store_kind {
    const char *name;
    bool direct; /* wants files opened with O_DIRECT */
    struct store *(*open)(const struct store_settings *settings, struct fault *fault);
    /* May `size` bytes be put now? 1 yes, 0 not yet, -1 it failed and every file was handed over. */
    int (*room)(struct store *store, size_t size);
    /* Waits until there may be more room. */
    void (*wait)(struct store *store);
    /* One whole record or block, for which there is room. `frames` of it are frames, 0 or 1. */
    void (*put)(struct store *store, struct file *file, const struct iovec *piece, unsigned pieces,
                unsigned frames);
    /* The pieces put so far may go; writing goes on. 0, or -1 as room says. */
    int (*burst)(struct store *store, uint64_t now_ns);
    /* The file is complete, but for what is on its way; it will be handed over. */
    void (*complete)(struct store *store, struct file *file);
    /* Everything is on its way and over; frees the store. */
    void (*close)(struct store *store);
};

extern const struct store_kind direct_store;
extern const struct store_kind buffered_store;
extern const struct store_kind sink_store;

#endif
