/* The number of frames of a queue by outcome: received + added = written + preprocessed + filtered +
 * sampled_out + each drop reason. */
#ifndef ACAPELLA_COUNTS_H
#define ACAPELLA_COUNTS_H

#include <stdatomic.h>
#include <stdint.h>

/* The thread of the queue writes the counts, other threads read them. The frames of `put` that were
 * written are counted for each file. */
struct counts {
    _Alignas(64) _Atomic uint64_t received;
    _Atomic uint64_t received_bytes; /* wire lengths, without FCS */
    _Atomic uint64_t preprocessed;   /* not sent by the P4 program */
    _Atomic uint64_t added;          /* sent by the P4 program in addition: copies, replies to probes */
    _Atomic uint64_t filtered;       /* rejected by the filter */
    _Atomic uint64_t sampled_out;    /* passed the filter, not sampled */
    _Atomic uint64_t put;            /* passed to the writer */
    _Atomic uint64_t truncated;      /* of `put`: longer than the snap length */
    _Atomic uint64_t dropped_full;   /* no buffer was free */
    _Atomic uint64_t dropped_failed; /* after a failure of the writer */
    _Atomic uint64_t dropped_shape;  /* frames with more segments than fit into a record */
    _Atomic uint64_t first_ns, last_ns;
};

static inline void add_count(_Atomic uint64_t *counter, uint64_t more) {
    const uint64_t now = atomic_load_explicit(counter, memory_order_relaxed) + more;
    atomic_store_explicit(counter, now, memory_order_relaxed);
}

#endif
