/* Writes each burst with writev through the page cache, and copies only pieces of up to STORE_COPIED
 * bytes. Used with --writer buffered, if direct I/O is not possible, and by acapella-monitor. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "writer/store.h"

#define COPIES (64U << 10)

struct store {
    struct store_settings settings;
    struct file *file; /* file of the pieces */
    struct iovec piece[IOV_MAX];
    unsigned pieces;
    uint8_t copies[COPIES];
    size_t copied;
    bool failed;
};

static struct store *buffered_open(const struct store_settings *settings, struct fault *fault) {
    struct store *store = calloc(1, sizeof *store);
    if (!store) {
        fail(fault, "no memory for a buffered writer; use fewer queues");
        return NULL;
    }
    store->settings = *settings;
    return store;
}

static void fail_files(struct store *store, int error) {
    store->failed = true;
    store->file->error = error;
    store->file->failed = "writev";
    file_hand_over(store->settings.files, store->file);
    store->file = NULL;
    store->pieces = 0;
}

/* Writes all pieces, and continues after a short write. */
static void write_pieces(struct store *store) {
    struct iovec *piece = store->piece;
    unsigned count = store->pieces;
    while (count > 0 && !store->failed) {
        const ssize_t written = writev(store->file->fd, piece, (int)count);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            fail_files(store, written < 0 ? errno : EIO);
            return;
        }
        store->file->disk_bytes += (uint64_t)written;
        size_t done = (size_t)written;
        while (count > 0 && done >= piece->iov_len) {
            done -= piece->iov_len;
            ++piece;
            --count;
        }
        if (count > 0) {
            piece->iov_base = (uint8_t *)piece->iov_base + done;
            piece->iov_len -= done;
        }
    }
    store->pieces = 0;
    store->copied = 0;
    if (store->file) {
        struct file *file = store->file;
        file->good = (struct mark){file->put_bytes, file->put_frames};
        atomic_store_explicit(&file->safe_frames, file->good.frames, memory_order_relaxed);
    }
}

static int buffered_has_space(struct store *store, size_t size) {
    (void)size;
    return store->failed ? -1 : 1;
}

static void buffered_wait(struct store *store) { (void)store; }

static void add(struct store *store, struct iovec piece) {
    if (piece.iov_len <= STORE_COPIED) {
        piece.iov_base = memcpy(store->copies + store->copied, piece.iov_base, piece.iov_len);
        store->copied += piece.iov_len;
    }
    struct iovec *last = store->pieces ? &store->piece[store->pieces - 1] : NULL;
    if (last && (uint8_t *)last->iov_base + last->iov_len == piece.iov_base) {
        last->iov_len += piece.iov_len; /* the trailer of a record and the header of the next */
    } else {
        store->piece[store->pieces++] = piece;
    }
}

static void buffered_put(struct store *store, struct file *file, const struct iovec *piece, unsigned pieces,
                         unsigned frames) {
    if (store->pieces + pieces > IOV_MAX || store->copied + pieces * STORE_COPIED > COPIES) {
        write_pieces(store);
    }
    if (store->failed) { /* count the frame as put; it is lost because its file failed */
        atomic_store_explicit(&file->put_frames, file->put_frames + frames, memory_order_relaxed);
        return;
    }
    store->file = file;
    for (unsigned i = 0; i < pieces; ++i) {
        if (piece[i].iov_len > 0) {
            add(store, piece[i]);
        }
        atomic_store_explicit(&file->put_bytes, file->put_bytes + piece[i].iov_len, memory_order_relaxed);
    }
    atomic_store_explicit(&file->put_frames, file->put_frames + frames, memory_order_relaxed);
}

static int buffered_burst(struct store *store, uint64_t now_ns) {
    (void)now_ns;
    if (store->pieces > 0) {
        write_pieces(store);
    }
    return store->failed ? -1 : 0;
}

static void buffered_complete(struct store *store, struct file *file) {
    if (buffered_burst(store, 0) == 0) {
        file_hand_over(store->settings.files, file);
        store->file = NULL;
    }
}

static void buffered_close(struct store *store) { free(store); }

const struct store_kind buffered_store = {"buffered",    false,        buffered_open,  buffered_has_space,
                                          buffered_wait, buffered_put, buffered_burst, buffered_complete,
                                          buffered_close};
