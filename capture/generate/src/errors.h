/* Errors of departures: departure minus requested time. They are counted in classes of 1 ns below 64 ns,
 * and of at most 1/32 of the error above. */
#ifndef ACAPELLA_GENERATE_ERRORS_H
#define ACAPELLA_GENERATE_ERRORS_H

#include <stdint.h>

#define ERRORS_STEPS 32
#define ERRORS_CLASSES (64 * ERRORS_STEPS)

struct errors {
    uint64_t counted[ERRORS_CLASSES];
    uint64_t total;
    int64_t largest_ns;
};

/* Counts an error; a negative one counts as 0. */
static inline void errors_count(struct errors *errors, int64_t error_ns) {
    const uint64_t value = error_ns < 0 ? 0 : (uint64_t)error_ns;
    const unsigned shift = value < ERRORS_STEPS ? 0 : 58U - (unsigned)__builtin_clzll(value);
    ++errors->counted[shift * ERRORS_STEPS + (value >> shift)];
    ++errors->total;
    errors->largest_ns = error_ns > errors->largest_ns ? error_ns : errors->largest_ns;
}

/* Returns the least error of the class that contains a percentile; `errors` is not empty. */
static inline int64_t errors_percentile(const struct errors *errors, unsigned percent) {
    uint64_t before = 0;
    unsigned at = 0;
    while (before + errors->counted[at] <= (errors->total - 1) * percent / 100) {
        before += errors->counted[at++];
    }
    const unsigned shift = at < 2 * ERRORS_STEPS ? 0 : at / ERRORS_STEPS - 1;
    return (int64_t)((uint64_t)(at - shift * ERRORS_STEPS) << shift);
}

#endif
