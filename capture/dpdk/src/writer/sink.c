/* Copies every record and discards it, to measure capture performance without a disk. */
#include <stdlib.h>
#include <string.h>

#include "writer/store.h"

struct store {
    struct store_settings settings;
    uint8_t *bytes;
    size_t at;
};

static struct store *sink_open(const struct store_settings *settings, struct fault *fault) {
    struct store *store = calloc(1, sizeof *store);
    if (!store || !(store->bytes = malloc(settings->buffer_bytes))) {
        free(store);
        fail(fault, "no memory for a sink of %zu bytes; use a smaller --buffer-bytes",
             settings->buffer_bytes);
        return NULL;
    }
    store->settings = *settings;
    return store;
}

static int sink_has_space(struct store *store, size_t size) {
    (void)store;
    (void)size;
    return 1;
}

static void sink_wait(struct store *store) { (void)store; }

static void sink_put(struct store *store, struct file *file, const struct iovec *piece, unsigned pieces,
                     unsigned frames) {
    for (unsigned i = 0; i < pieces; ++i) {
        if (store->at + piece[i].iov_len > store->settings.buffer_bytes) {
            store->at = 0;
        }
        memcpy(store->bytes + store->at, piece[i].iov_base, piece[i].iov_len);
        store->at += piece[i].iov_len;
        atomic_store_explicit(&file->put_bytes, file->put_bytes + piece[i].iov_len, memory_order_relaxed);
    }
    atomic_store_explicit(&file->put_frames, file->put_frames + frames, memory_order_relaxed);
    atomic_store_explicit(&file->safe_frames, file->put_frames, memory_order_relaxed);
}

static int sink_burst(struct store *store, uint64_t now_ns) {
    (void)store;
    (void)now_ns;
    return 0;
}

static void sink_complete(struct store *store, struct file *file) {
    file_hand_over(store->settings.files, file);
}

static void sink_close(struct store *store) {
    free(store->bytes);
    free(store);
}

const struct store_kind sink_store = {"sink",   false,      sink_open,     sink_has_space, sink_wait,
                                      sink_put, sink_burst, sink_complete, sink_close};
