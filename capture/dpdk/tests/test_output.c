/* Tests of the writers and their files, with short, interrupted and failed writes. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/check.h"
#include "writer/output.h"
#include "writer/uring.h"

#define FRAMES 4000
#define LONGEST 3000

/* Results of writes: one in `shorten` is short, one in `interrupt` is interrupted, and write number `fail_at`
 * fails, unless it is 0. */
static struct {
    unsigned shorten, interrupt, fail_at, calls, shortened, interrupted;
    bool stall; /* a write ends only if the store waits for it */
    int error;
} kernel;

static bool is_one_in(unsigned n, unsigned *count) {
    const bool hit = n && rand() % n == 0;
    *count += hit;
    return hit;
}

bool __real_uring_result(struct io_uring *ring, bool wait, int *result);
bool __wrap_uring_result(struct io_uring *ring, bool wait, int *result);
ssize_t __real_writev(int fd, const struct iovec *piece, int count);
ssize_t __wrap_writev(int fd, const struct iovec *piece, int count);
ssize_t __real_pwrite(int fd, const void *from, size_t size, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *from, size_t size, off_t offset);

bool __wrap_uring_result(struct io_uring *ring, bool wait, int *result) {
    const bool ended = (wait || !kernel.stall) && __real_uring_result(ring, wait, result);
    if (ended && *result > 0) {
        if (++kernel.calls == kernel.fail_at) {
            *result = -kernel.error;
        } else if (is_one_in(kernel.interrupt, &kernel.interrupted)) {
            *result = -EINTR;
        } else if (*result > FILE_ALIGN && is_one_in(kernel.shorten, &kernel.shortened)) {
            *result = FILE_ALIGN + rand() % (*result - FILE_ALIGN);
        }
    }
    return ended;
}

ssize_t __wrap_writev(int fd, const struct iovec *piece, int count) {
    if (++kernel.calls == kernel.fail_at) {
        errno = kernel.error;
        return -1;
    }
    if (is_one_in(kernel.interrupt, &kernel.interrupted)) {
        errno = EINTR;
        return -1;
    }
    if (is_one_in(kernel.shorten, &kernel.shortened)) {
        const struct iovec part = {piece[0].iov_base, 1 + (size_t)rand() % piece[0].iov_len};
        return __real_writev(fd, &part, 1);
    }
    return __real_writev(fd, piece, count);
}

ssize_t __wrap_pwrite(int fd, const void *from, size_t size, off_t offset) {
    if (is_one_in(kernel.interrupt, &kernel.interrupted)) {
        errno = EINTR;
        return -1;
    }
    return __real_pwrite(
        fd, from, is_one_in(kernel.shorten, &kernel.shortened) ? 1 + (size_t)rand() % size : size, offset);
}

static uint8_t bytes[FRAMES][LONGEST];
static uint32_t size_of[FRAMES];

static void make_frames(void) {
    for (unsigned i = 0; i < FRAMES; ++i) {
        size_of[i] = 1 + (uint32_t)rand() % LONGEST;
        for (unsigned at = 0; at < size_of[i]; ++at) {
            bytes[i][at] = (uint8_t)rand();
        }
    }
}

/* Puts all frames. Returns the number of accepted frames. */
static unsigned put_frames(struct output *output, struct counts *counts, struct fault *fault) {
    unsigned accepted = 0;
    for (unsigned i = 0; i < FRAMES; ++i) {
        const uint32_t split = size_of[i] / 3;
        const struct frame frame = {
            .ts_ns = 1700000000000000000ULL + i,
            .wire_bytes = size_of[i],
            .kept_bytes = size_of[i],
            .segment = {{bytes[i], split}, {bytes[i] + split, size_of[i] - split}},
            .segments = 2,
        };
        if (output_put(output, &frame, fault) == PUT_DONE) {
            CHECK(accepted == i); /* no frame is accepted after a failure */
            ++accepted;
            add_count(&counts->put, 1);
        }
        if (i % 128 == 0) {
            output_burst(output, 1000ULL * i);
        }
    }
    return accepted;
}

/* Checks that a file contains whole frames from number `from` on. Returns the number of the next frame. */
static unsigned read_back(const struct file *file, unsigned from) {
    const char *path = file->state == FILE_WHOLE ? file->path : file->part;
    static uint8_t raw[64 << 20];
    struct stat status;
    const int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && fstat(fd, &status) == 0);
    CHECK((uint64_t)status.st_size == file->kept_bytes && (status.st_mode & 0777) == 0600);
    CHECK(status.st_blocks * 512 <= status.st_size + 65536); /* space that was allocated is released */
    CHECK(read(fd, raw, sizeof raw) == status.st_size);
    close(fd);
    size_t at = file->format->first_record;
    const size_t head = file->format == &pcap_format ? 16 : 28;
    while (at < (size_t)status.st_size) {
        bool is_frame = false;
        const int64_t size = file->format->size(raw + at, (size_t)status.st_size - at, &is_frame);
        CHECK(size > 0 && at + (size_t)size <= (size_t)status.st_size);
        if (is_frame) {
            CHECK(memcmp(raw + at + head, bytes[from], size_of[from]) == 0);
            ++from;
        }
        at += (size_t)size;
    }
    return from;
}

static void run(const char *directory, const struct store_kind *kind, const struct format *format,
                uint64_t rotate, bool fails) {
    static unsigned number;
    char stem[4096];
    struct files files = {.lock = PTHREAD_MUTEX_INITIALIZER, .preallocate = 4 << 20};
    struct counts counts;
    struct fault fault = {""};
    memset(&counts, 0, sizeof counts);
    snprintf(stem, sizeof stem, "%s/%u", directory, number++);
    const struct output_settings settings = {
        .stem = stem,
        .extension = format->name,
        .rotate_bytes = rotate,
        .wait = true,
        .format = format,
        .kind = kind,
        .store = {&files, 4, 131072, 100000},
        .info = {.program = "test", .interface = "none", .snaplen = 0},
    };
    kernel.calls = 0;
    struct output *output = output_open(&settings, 0, &counts, &fault);
    CHECK(output);
    const unsigned accepted = put_frames(output, &counts, &fault);
    CHECK(fails || accepted == FRAMES);
    output_close(output);
    files_finish_pending(&files);
    unsigned next = 0, failed_files = 0;
    uint64_t put = 0;
    for (const struct file *file = files.first; file; file = file->next) {
        CHECK(file->state != FILE_OPEN && (file->state == FILE_WHOLE) == (file->error == 0));
        CHECK(failed_files == 0 || file->kept_frames == 0); /* no whole frame after a gap */
        failed_files += file->error != 0;
        const unsigned before = next;
        next = file->state == FILE_REMOVED ? next : read_back(file, next);
        CHECK(file->state != FILE_REMOVED || access(file->part, F_OK) != 0);
        CHECK(next - before == file->kept_frames && file->kept_frames <= file->put_frames);
        put += file->put_frames;
    }
    CHECK(put == accepted && next <= accepted);
    CHECK(fails ? failed_files > 0 && next < FRAMES : next == FRAMES);
    files_free(&files);
}

/* If no buffer is free and wait is false, output_put returns PUT_FULL, and accepted frames are written
 * whole. */
static void run_full(const char *directory) {
    char stem[4096];
    struct files files = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct counts counts;
    struct fault fault;
    memset(&counts, 0, sizeof counts);
    snprintf(stem, sizeof stem, "%s/full", directory);
    const struct output_settings settings = {
        .stem = stem,
        .extension = "pcap",
        .format = &pcap_format,
        .kind = &direct_store,
        .store = {&files, 4, 131072, UINT64_MAX},
        .info = {.program = "test"},
    };
    struct output *output = output_open(&settings, 0, &counts, &fault);
    unsigned done = 0, full = 0;
    kernel.stall = true;
    for (unsigned i = 0; i < 1000; ++i) {
        const struct frame frame = {
            .wire_bytes = LONGEST, .kept_bytes = LONGEST, .segment = {{bytes[0], LONGEST}}, .segments = 1};
        const enum put_result result = output_put(output, &frame, &fault);
        done += result == PUT_DONE;
        full += result == PUT_FULL;
    }
    kernel.stall = false;
    CHECK(done + full == 1000 && done == (4 * 131072 - 24 - FORMAT_TAIL_MAX) / (16 + LONGEST));
    output_close(output);
    files_finish_pending(&files);
    CHECK(files.first->state == FILE_WHOLE && files.first->kept_frames == done);
    CHECK(files.first->kept_bytes == 24 + done * (uint64_t)(16 + LONGEST));
    files_free(&files);
}

static void run_all_formats(const char *directory, const struct store_kind *kind, bool fails) {
    const struct format *formats[] = {&pcap_format, &pcapng_format};
    for (unsigned i = 0; i < 2; ++i) {
        run(directory, kind, formats[i], 0, fails);
        run(directory, kind, formats[i], 300000, fails);
    }
}

/* Files end at many offsets in a buffer, with a slow disk. */
static void run_rotations(const char *directory, const struct store_kind *kind) {
    kernel.stall = true;
    for (uint64_t rotate_bytes = 40000; rotate_bytes < 400000; rotate_bytes += 23456) {
        run(directory, kind, &pcap_format, rotate_bytes, false);
    }
    kernel.stall = false;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    const struct store_kind *kinds[] = {&direct_store, &buffered_store};
    make_frames();
    for (unsigned i = 0; i < 2; ++i) {
        memset(&kernel, 0, sizeof kernel);
        run_all_formats(argv[1], kinds[i], false);
        run_rotations(argv[1], kinds[i]);
        kernel.shorten = kernel.interrupt = 3;
        run_all_formats(argv[1], kinds[i], false);
        CHECK(kernel.shortened > 10 && kernel.interrupted > 10);
        kernel.error = ENOSPC;
        for (kernel.fail_at = 1; kernel.fail_at < 16; ++kernel.fail_at) {
            run_all_formats(argv[1], kinds[i], true);
        }
    }
    memset(&kernel, 0, sizeof kernel);
    run_full(argv[1]);
    puts("test_output: ok");
    return 0;
}
