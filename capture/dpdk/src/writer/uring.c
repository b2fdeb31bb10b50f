#include "writer/uring.h"

#include <errno.h>
#include <liburing.h>

#define ENTRIES 4

int uring_open(struct io_uring *ring) { return -io_uring_queue_init(ENTRIES, ring, 0); }

int uring_write(struct io_uring *ring, int fd, const struct iovec *buffers, unsigned count, uint64_t offset) {
    struct io_uring_sqe *entry = io_uring_get_sqe(ring);
    if (!entry) {
        return EBUSY;
    }
    io_uring_prep_writev(entry, fd, buffers, count, offset);
    /* A kernel thread, rather than the receiving thread, pins the pages and extends the file. */
    entry->flags |= IOSQE_ASYNC;
    for (;;) {
        const int submitted = io_uring_submit(ring);
        if (submitted >= 0 || (submitted != -EINTR && submitted != -EAGAIN)) {
            return submitted < 0 ? -submitted : 0;
        }
    }
}

bool uring_result(struct io_uring *ring, bool wait, int *result) {
    struct io_uring_cqe *completion = NULL;
    int status = 0;
    do {
        status = wait ? io_uring_wait_cqe(ring, &completion) : io_uring_peek_cqe(ring, &completion);
    } while (status == -EINTR);
    if (status == -EAGAIN) {
        return false;
    }
    if (status < 0) {
        *result = status;
        return true;
    }
    *result = completion->res;
    io_uring_cqe_seen(ring, completion);
    return true;
}
