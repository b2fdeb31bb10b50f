/* One vectored write at a time through io_uring. */
#ifndef ACAPELLA_URING_H
#define ACAPELLA_URING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

struct io_uring;

/* Returns 0 or an errno. */
int uring_open(struct io_uring *ring);
int uring_write(struct io_uring *ring, int fd, const struct iovec *buffers, unsigned count, uint64_t offset);
/* Returns true if the write has ended; `result` is the number of bytes written, or -errno. */
bool uring_result(struct io_uring *ring, bool wait, int *result);

#endif
