/* Converts a free-running counter (TSC, or a NIC's clock) to nanoseconds of the system clock. One thread
 * reads both clocks regularly and calls clock_discipline; any number of threads call clock_ns for timestamps.
 * The conversion is a linear function (the line). A new line starts on the old one, so that timestamps never
 * go back, and is slewed towards the system clock. If the system clock was stepped by more than
 * CLOCK_STEP_NS, the line steps with it, and the step is counted. */
#ifndef ACAPELLA_CLOCK_H
#define ACAPELLA_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CLOCK_STEP_NS 10000000
#define CLOCK_SLEW_MAX 500e-6 /* as for adjtime(3) and NTP */

struct clock_line {
    uint64_t counter;
    int64_t ns;
    uint64_t ns_per_tick; /* in units of 2^-40 ns */
};

struct clock {
    atomic_uint version; /* odd while a line is being changed */
    struct clock_line line;
    /* below: used by the disciplining thread only */
    double rate; /* ns per tick of the counter, as measured */
    uint64_t last_counter;
    int64_t last_ns;
    uint64_t updates, steps;
    /* system clock minus line before the latest correction; largest: absolute value, without steps */
    int64_t offset_ns, largest_offset_ns;
};

/* Initializes a clock whose counter has `hz` ticks per second and is `counter` at system time `ns`. */
void clock_begin(struct clock *clock, double hz, uint64_t counter, int64_t ns);

/* Corrects the line with a simultaneous reading of both clocks. */
void clock_discipline(struct clock *clock, uint64_t counter, int64_t ns);

static inline int64_t line_ns(const struct clock_line *line, uint64_t counter) {
    __extension__ typedef __int128 int128;
    const int64_t ticks =
        (int64_t)(counter - line->counter); /* the NIC's timestamp may be older than the line */
    return line->ns + (int64_t)(((int128)ticks * (int128)line->ns_per_tick) >> 40);
}

static inline int64_t clock_ns(struct clock *clock, uint64_t counter) {
    for (;;) {
        const unsigned before = atomic_load_explicit(&clock->version, memory_order_acquire);
        const struct clock_line line = clock->line;
        atomic_thread_fence(memory_order_acquire);
        if (!(before & 1) && before == atomic_load_explicit(&clock->version, memory_order_relaxed)) {
            return line_ns(&line, counter);
        }
    }
}

#endif
