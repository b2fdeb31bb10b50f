/* Writes with O_DIRECT and io_uring, from a ring of aligned buffers per queue.
 *
 * Only one write is in progress at a time; it writes the buffers that are full at its start, at most BATCH.
 * Thus a file grows in order and without gaps, so that its contents are complete up to its end if the process
 * is killed, and writes get larger if the disk is slow. After flush_ns, the whole blocks (FILE_ALIGN) of a
 * buffer that is not full are written. */
#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "writer/store.h"
#include "writer/uring.h"

#define BATCH 16 /* maximum number of buffers in one write */

struct buffer {
    uint8_t *bytes;
    size_t used;
    struct file *file;
    struct mark first, last; /* first and last end of a record in it; offset 0: none */
    bool full;               /* no more bytes are added */
    bool ends_file;          /* the file ends in this buffer */
};

struct store {
    struct store_settings settings;
    struct io_uring ring;
    uint8_t *memory;
    struct buffer *buffer;
    unsigned oldest, used; /* buffers in use from the oldest one, cyclic; the last one is being filled */
    unsigned sent;         /* number of oldest buffers that are being written */
    size_t sent_bytes, sent_done;
    struct iovec piece[BATCH];
    uint64_t sent_ns;
    bool failed;
};

static struct buffer *buffer_at(struct store *store, unsigned n) {
    return &store->buffer[(store->oldest + n) % store->settings.buffers];
}

static size_t align_down(size_t size) { return size & ~(size_t)(FILE_ALIGN - 1); }

static struct store *direct_open(const struct store_settings *settings, struct fault *fault) {
    struct store *store = calloc(1, sizeof *store);
    struct buffer *buffers = calloc(settings->buffers, sizeof *buffers);
    const size_t size = settings->buffers * settings->buffer_bytes;
    if (!store || !buffers || posix_memalign((void **)&store->memory, FILE_ALIGN, size) != 0) {
        free(store);
        free(buffers);
        fail(fault, "no memory for %u buffers of %zu bytes; use fewer or smaller ones", settings->buffers,
             settings->buffer_bytes);
        return NULL;
    }
    madvise(store->memory, size, MADV_HUGEPAGE); /* fewer pages to pin; old kernels do not support it */
    memset(store->memory, 0, size);              /* avoids page faults while frames arrive */
    store->settings = *settings;
    store->buffer = buffers;
    for (unsigned i = 0; i < settings->buffers; ++i) {
        buffers[i].bytes = store->memory + i * settings->buffer_bytes;
    }
    const int error = uring_open(&store->ring);
    if (error) {
        fail(fault, "io_uring: %s; allow it (sysctl kernel.io_uring_disabled) or use --writer buffered",
             strerror(error));
        free(store->memory);
        free(buffers);
        free(store);
        return NULL;
    }
    return store;
}

static void release(struct store *store, unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
        struct buffer *buffer = buffer_at(store, i);
        *buffer = (struct buffer){.bytes = buffer->bytes};
    }
    store->oldest = (store->oldest + count) % store->settings.buffers;
    store->used -= count;
}

/* Ends writing after an error: every file keeps the bytes on the disk, which the main thread truncates to
 * whole records. */
static void fail_files(struct store *store, int error) {
    struct file *file = NULL;
    store->failed = true;
    for (unsigned i = 0; i < store->used; ++i) {
        struct buffer *buffer = buffer_at(store, i);
        if (buffer->file && buffer->file != file) {
            file = buffer->file;
            file->error = error;
            file->failed = "write";
            file_hand_over(store->settings.files, file);
        }
    }
    release(store, store->used);
    store->sent = 0;
}

static void mark_written(struct buffer *buffer) {
    struct file *file = buffer->file;
    file->disk_bytes += align_down(buffer->used);
    const struct mark mark =
        buffer->last.offset && buffer->last.offset <= file->disk_bytes ? buffer->last : buffer->first;
    if (mark.offset && mark.offset <= file->disk_bytes) {
        file->good = mark;
        atomic_store_explicit(&file->safe_frames, mark.frames, memory_order_relaxed);
    }
}

/* Hands over a file with its last bytes, which the main thread writes without O_DIRECT. */
static bool hand_over(struct store *store, struct buffer *buffer) {
    struct file *file = buffer->file;
    const size_t aligned_bytes = align_down(buffer->used);
    file->rest_bytes = (uint32_t)(buffer->used - aligned_bytes);
    file->rest = malloc(file->rest_bytes + 1);
    if (!file->rest) {
        return false;
    }
    memcpy(file->rest, buffer->bytes + aligned_bytes, file->rest_bytes);
    file_hand_over(store->settings.files, file);
    return true;
}

static void submit(struct store *store) {
    struct iovec left[BATCH];
    unsigned count = 0;
    size_t skip = store->sent_done;
    for (unsigned i = 0; i < store->sent; ++i) {
        const struct iovec piece = store->piece[i];
        const size_t skipped = skip < piece.iov_len ? skip : piece.iov_len;
        skip -= skipped;
        if (skipped < piece.iov_len) {
            left[count++] = (struct iovec){(uint8_t *)piece.iov_base + skipped, piece.iov_len - skipped};
        }
    }
    const struct file *file = buffer_at(store, 0)->file;
    const int error = uring_write(&store->ring, file->fd, left, count, file->disk_bytes + store->sent_done);
    if (error) {
        fail_files(store, error);
    }
}

/* Writes full buffers, unless a write is in progress. */
static void send_full(struct store *store, uint64_t now_ns) {
    while (!store->failed && store->sent == 0 && store->used > 0 && buffer_at(store, 0)->full) {
        struct file *file = buffer_at(store, 0)->file;
        unsigned count = 0;
        store->sent_bytes = store->sent_done = 0;
        while (count < BATCH && count < store->used && buffer_at(store, count)->full &&
               buffer_at(store, count)->file == file) {
            const struct buffer *buffer = buffer_at(store, count);
            store->piece[count++] = (struct iovec){buffer->bytes, align_down(buffer->used)};
            store->sent_bytes += align_down(buffer->used);
        }
        store->sent_ns = now_ns;
        if (store->sent_bytes > 0) {
            store->sent = count;
            submit(store);
        } else { /* a file that has less than FILE_ALIGN bytes in this buffer */
            if (!hand_over(store, buffer_at(store, 0))) {
                fail_files(store, ENOMEM);
                return;
            }
            release(store, 1);
        }
    }
}

/* At a limit on file sizes the kernel shortens the write and then reports it as misaligned. */
static int error_of_write(const struct store *store, const struct file *file, int error) {
    struct rlimit limit;
    const bool beyond = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
                        file->disk_bytes + store->sent_bytes > limit.rlim_cur;
    return error == EINVAL && beyond ? EFBIG : error;
}

/* Handles the result of a write. After a short write, the remaining bytes are written; if the disk is full,
 * that write returns the error. */
static void handle_result(struct store *store, int result) {
    if (result == -EINTR || result == -EAGAIN) {
        submit(store);
        return;
    }
    if (result > 0) {
        const size_t before = store->sent_done;
        store->sent_done = align_down(before + (size_t)result);
        if (store->sent_done > before && store->sent_done < store->sent_bytes) {
            submit(store);
            return;
        }
        result = -ENOSPC; /* if less than FILE_ALIGN was written, the disk is full */
    }
    size_t done = store->sent_done;
    unsigned written_buffers = 0;
    while (written_buffers < store->sent && done >= store->piece[written_buffers].iov_len) {
        done -= store->piece[written_buffers].iov_len;
        mark_written(buffer_at(store, written_buffers++));
    }
    if (written_buffers < store->sent) {
        struct file *file = buffer_at(store, written_buffers)->file;
        const int error = error_of_write(store, file, result < 0 ? -result : EIO);
        file->disk_bytes += done;
        fail_files(store, error);
        return;
    }
    if (buffer_at(store, written_buffers - 1)->ends_file &&
        !hand_over(store, buffer_at(store, written_buffers - 1))) {
        fail_files(store, ENOMEM);
        return;
    }
    store->sent = 0;
    release(store, written_buffers);
}

static void progress(struct store *store, bool wait, uint64_t now_ns) {
    int result = 0;
    while (store->sent > 0 && uring_result(&store->ring, wait, &result)) {
        handle_result(store, result);
        wait = false;
    }
    send_full(store, now_ns);
}

static int direct_has_space(struct store *store, size_t size) {
    for (int attempt = 0; !store->failed; ++attempt) {
        size_t room = (store->settings.buffers - store->used) * store->settings.buffer_bytes;
        if (store->used > 0 && !buffer_at(store, store->used - 1)->full) {
            room += store->settings.buffer_bytes - buffer_at(store, store->used - 1)->used;
        }
        if (room >= size || attempt) {
            return room >= size;
        }
        progress(store, false, store->sent_ns);
    }
    return -1;
}

static void direct_wait(struct store *store) { progress(store, true, store->sent_ns); }

/* The caller has checked that there is room. */
static struct buffer *next_buffer(struct store *store, struct file *file) {
    assert(store->used < store->settings.buffers);
    struct buffer *buffer = buffer_at(store, store->used++);
    buffer->file = file;
    return buffer;
}

static struct buffer *filling_buffer(struct store *store, struct file *file) {
    struct buffer *last = store->used > 0 ? buffer_at(store, store->used - 1) : NULL;
    return last && !last->full ? last : next_buffer(store, file);
}

static void direct_put(struct store *store, struct file *file, const struct iovec *piece, unsigned pieces,
                       unsigned frames) {
    struct buffer *buffer = filling_buffer(store, file);
    uint64_t bytes = 0;
    for (unsigned i = 0; i < pieces; ++i) {
        const uint8_t *from = piece[i].iov_base;
        size_t left = piece[i].iov_len;
        bytes += left;
        while (left > 0) {
            if (buffer->full) {
                buffer = next_buffer(store, file);
            }
            const size_t room = store->settings.buffer_bytes - buffer->used;
            const size_t size = left < room ? left : room;
            memcpy(buffer->bytes + buffer->used, from, size);
            buffer->used += size;
            buffer->full = buffer->used == store->settings.buffer_bytes;
            from += size;
            left -= size;
        }
    }
    atomic_store_explicit(&file->put_bytes, file->put_bytes + bytes, memory_order_relaxed);
    atomic_store_explicit(&file->put_frames, file->put_frames + frames, memory_order_relaxed);
    buffer->last = (struct mark){file->put_bytes, file->put_frames};
    if (!buffer->first.offset) {
        buffer->first = buffer->last;
    }
}

/* Marks a buffer that fills slowly as full, so that its whole blocks are written; the remaining bytes move to
 * a new buffer. */
static void flush(struct store *store) {
    struct buffer *buffer = buffer_at(store, 0);
    const size_t aligned_bytes = align_down(buffer->used);
    if (aligned_bytes == 0 || store->used >= store->settings.buffers) {
        return;
    }
    const size_t rest = buffer->used - aligned_bytes;
    buffer->full = true;
    if (rest > 0) {
        struct buffer *next = next_buffer(store, buffer->file);
        memcpy(next->bytes, buffer->bytes + aligned_bytes, rest);
        next->used = rest;
        next->last = buffer->last;
        buffer->used = aligned_bytes;
    }
}

static int direct_burst(struct store *store, uint64_t now_ns) {
    if (store->sent_ns == 0) {
        store->sent_ns = now_ns;
    }
    progress(store, false, now_ns);
    if (!store->failed && store->sent == 0 && store->used == 1 &&
        now_ns - store->sent_ns >= store->settings.flush_ns) {
        flush(store);
        store->sent_ns = now_ns;
        send_full(store, now_ns);
    }
    return store->failed ? -1 : 0;
}

static void direct_complete(struct store *store, struct file *file) {
    if (store->failed) {
        return;
    }
    struct buffer *last = store->used > 0 ? buffer_at(store, store->used - 1) : NULL;
    if (!last || last->file != file) {
        last = next_buffer(store, file); /* all bytes of the file are on the disk */
    }
    last->full = last->ends_file = true;
    send_full(store, store->sent_ns);
}

static void direct_close(struct store *store) {
    while (store->used > 0 && !store->failed) {
        progress(store, true, store->sent_ns);
    }
    io_uring_queue_exit(&store->ring);
    free(store->memory);
    free(store->buffer);
    free(store);
}

const struct store_kind direct_store = {"direct",    true,       direct_open,  direct_has_space,
                                        direct_wait, direct_put, direct_burst, direct_complete,
                                        direct_close};
