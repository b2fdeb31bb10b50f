/* Ways of writing records: each queue's thread appends records, a store writes them.
 *
 *   direct    O_DIRECT and io_uring, from a ring of aligned buffers, without the page cache
 *   buffered  writev after each burst; copies only short pieces
 *   sink      copies and counts records, and writes nothing
 */
#ifndef ACAPELLA_STORE_H
#define ACAPELLA_STORE_H

#include <stddef.h>

#include "writer/file.h"

#define STORE_COPIED 64 /* pieces up to this size are copied; longer ones must stay valid until `burst` */

struct store_settings {
    struct files *files;
    unsigned buffers;
    size_t buffer_bytes; /* a multiple of FILE_ALIGN */
    uint64_t flush_ns;   /* longest time that a complete block waits in a buffer that is not full */
};

struct store;

struct store_kind {
    const char *name;
    bool direct; /* files are opened with O_DIRECT */
    struct store *(*open)(const struct store_settings *settings, struct fault *fault);
    /* Returns 1 if `size` bytes can be put, 0 if not yet, -1 if writing failed and every file was
     * passed to the main thread. */
    int (*has_space)(struct store *store, size_t size);
    /* Waits until there may be more space. */
    void (*wait)(struct store *store);
    /* Puts one complete record or block; has_space() must have returned 1. `frames`: frames in it, 0 or 1. */
    void (*put)(struct store *store, struct file *file, const struct iovec *piece, unsigned pieces,
                unsigned frames);
    /* Ends a burst: the caller may then free the pieces that it has put. Returns 0, or -1 like has_space().
     */
    int (*burst)(struct store *store, uint64_t now_ns);
    /* Ends a file; it is passed to the main thread when all its records are written. */
    void (*complete)(struct store *store, struct file *file);
    /* Waits for all writes and frees the store. */
    void (*close)(struct store *store);
};

extern const struct store_kind direct_store;
extern const struct store_kind buffered_store;
extern const struct store_kind sink_store;

#endif
