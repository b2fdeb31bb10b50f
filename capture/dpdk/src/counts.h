/* What became of every frame of a queue: received + added = written + preprocessed + filtered + sampled_out +
 * each drop reason. */
#ifndef ACAPELLA_COUNTS_H
#define ACAPELLA_COUNTS_H

#include <stdatomic.h>
#include <stdint.h>

/* Of one queue's thread, which alone writes them; others read. How many of `put` were written the files know.
 */
struct counts {
    _Alignas(64) _Atomic uint64_t received;
    _Atomic uint64_t received_bytes; /* wire lengths, without FCS */
    _Atomic uint64_t preprocessed;   /* the P4 program did not send them */
    _Atomic uint64_t added;          /* it sent these besides those received: copies, answers to probes */
    _Atomic uint64_t filtered;       /* did not pass the filter */
    _Atomic uint64_t sampled_out;    /* passed the filter, was not the n-th */
    _Atomic uint64_t put;            /* given to the writer */
    _Atomic uint64_t truncated;      /* of these, longer than the snap length */
    _Atomic uint64_t dropped_full;   /* no buffer was free */
    _Atomic uint64_t dropped_failed; /* after the writer had failed */
    _Atomic uint64_t dropped_shape;  /* in more segments than a record takes */
    _Atomic uint64_t first_ns, last_ns;
};

static inline void count(_Atomic uint64_t *counter, uint64_t more) {
    const uint64_t now = atomic_load_explicit(counter, memory_order_relaxed) + more;
    atomic_store_explicit(counter, now, memory_order_relaxed);
}

#endif
