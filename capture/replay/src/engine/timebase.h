/* The clock of a replay: nanoseconds of the system clock, computed from the TSC; in tests, a simulated clock.
 * The TSC and the system clock are compared ten times per second (common/clock.h). */
#ifndef ACAPELLA_REPLAY_TIMEBASE_H
#define ACAPELLA_REPLAY_TIMEBASE_H

#include <rte_branch_prediction.h>
#include <rte_cycles.h>

#include "common/clock.h"
#include "common/fault.h"

#define TIMEBASE_PERIOD_NS 100000000LL

struct timebase {
    struct clock clock;
    double tsc_hz;
    int64_t error_ns;         /* half of the time that the latest reading of both clocks took */
    int64_t largest_error_ns; /* since timebase_begin_run: the offset of a reading plus half of its time */
    _Atomic unsigned steps;   /* of the system clock, by more than CLOCK_STEP_NS */
    /* below: used by the polling thread only */
    struct clock_line line;
    unsigned version; /* of line; odd: none yet */
    int64_t latest_ns;
    bool simulated;
    int64_t simulated_ns;
};

/* Measures the rate of the TSC, which takes 100 ms. */
int timebase_begin(struct timebase *timebase, struct fault *fault);

/* Reads both clocks and corrects the line; for the main thread. */
void timebase_discipline(struct timebase *timebase);

/* timebase_begin_run resets `largest_error_ns`; both functions include the current error in it, without a
 * correction. For the main thread. */
void timebase_begin_run(struct timebase *timebase);
void timebase_measure(struct timebase *timebase);

/* Copies the line if it has changed. A line that is being written is copied by a later call, so that the
 * polling thread never waits for the main thread. */
static inline void timebase_follow(struct timebase *timebase) {
    struct clock *clock = &timebase->clock;
    const unsigned before = atomic_load_explicit(&clock->version, memory_order_acquire);
    if (likely(before == timebase->version) || (before & 1)) {
        return;
    }
    const struct clock_line line = clock->line;
    atomic_thread_fence(memory_order_acquire);
    if (before == atomic_load_explicit(&clock->version, memory_order_relaxed)) {
        timebase->line = line;
        timebase->version = before;
    }
}

/* Returns the time; for the polling thread. It never goes back, except if the system clock was set back. */
static inline int64_t timebase_ns(struct timebase *timebase) {
    if (unlikely(timebase->simulated)) {
        return timebase->simulated_ns;
    }
    timebase_follow(timebase);
    const int64_t now = line_ns(&timebase->line, rte_rdtsc());
    if (unlikely(now < timebase->latest_ns && timebase->latest_ns - now < CLOCK_STEP_NS / 2)) {
        return timebase->latest_ns; /* a new line may start some nanoseconds before the old one */
    }
    timebase->latest_ns = now;
    return now;
}

#endif
