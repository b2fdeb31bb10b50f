/* Histograms of times with four buckets per power of two: from 4 ns on,
 * bucket limits are at most 25 % apart. */
#ifndef ACAPELLA_HISTOGRAM_H
#define ACAPELLA_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BUCKETS 164                /* the last one begins at 1.75 * 2^41 ns, about an hour */
#define HISTOGRAM_NEGATIVE HISTOGRAM_BUCKETS /* index of the bucket of negative values */
#define HISTOGRAM_SIZE (HISTOGRAM_BUCKETS + 1)

/* Returns the bucket of a value: 0, 1, 2 and 3 have their own, then 4 for each power of two. */
static inline unsigned histogram_bucket(int64_t ns) {
    if (ns < 4) {
        return ns < 0 ? HISTOGRAM_NEGATIVE : (unsigned)ns;
    }
    const unsigned exponent = 63 - (unsigned)__builtin_clzll((uint64_t)ns);
    const unsigned bucket = (exponent - 1) * 4 + (unsigned)((uint64_t)ns >> (exponent - 2) & 3);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

#endif
