/* Random numbers that depend only on a key and an index, and functions of them whose results are the same on
 * every machine. acapella_capture/generate/draws.py computes the same numbers. */
#ifndef ACAPELLA_GENERATE_DRAW_H
#define ACAPELLA_GENERATE_DRAW_H

#include "common/stamp.h"

#define DRAW_GOLDEN 0x9e3779b97f4a7c15ULL
#define DRAW_LARGEST 9e15 /* larger results are limited to this: below 2^53 */

/* Returns number `index` of the sequence `key` (SplitMix64). */
static inline uint64_t draw(uint64_t key, uint64_t index) { return mix64(key + index * DRAW_GOLDEN); }

/* Maps a random number to 0 to count - 1. `count` is at most 2^32, or a power of two; 0 means 2^64. */
static inline uint64_t draw_below(uint64_t value, uint64_t count) {
    return count && count <= 1ULL << 32 ? (value >> 32) * count >> 32 : value & (count - 1);
}

/* Maps a random number to a number between 0 and 1, both excluded. */
static inline double draw_unit(uint64_t value) { return ((double)(value >> 12) + 0.5) * 0x1p-52; }

/* Natural logarithm of a positive double that is not subnormal, and exponential function of a number from 0
 * to 700. They use only additions, multiplications and divisions, whose results IEEE 754 defines, unlike
 * those of libm. */
double draw_log(double x);
double draw_exp(double x);

enum distribution_kind { DISTRIBUTION_CONSTANT, DISTRIBUTION_EXPONENTIAL, DISTRIBUTION_PARETO };

/* A distribution: constant `scale`; exponential with mean `scale`; Pareto with minimum `scale` and shape
 * `shape`. */
struct distribution {
    enum distribution_kind kind;
    double scale, shape;
    uint64_t key;
};

/* Returns number `index` of a distribution, rounded to an integer. */
int64_t distribution_draw(const struct distribution *distribution, uint64_t index);

#endif
