#include "engine/timebase.h"

#include <time.h>

#include "common/both_clocks.h"

static int64_t half_window_ns(const struct timebase *timebase, const struct both_clocks *reading) {
    return (int64_t)((double)reading->window * 0.5e9 / timebase->tsc_hz) + 1;
}

int timebase_begin(struct timebase *timebase, struct fault *fault) {
    /* rte_get_tsc_hz is rounded to 10 MHz; 100 ms give 1 ppm if readings are within 100 ns */
    const struct timespec pause = {0, TIMEBASE_PERIOD_NS};
    const struct both_clocks first = both_clocks_read();
    nanosleep(&pause, NULL);
    const struct both_clocks second = both_clocks_read();
    if (second.ns <= first.ns) {
        return fail(fault, "the system clock was set back just now; try again");
    }
    timebase->tsc_hz = (double)(second.tsc - first.tsc) * 1e9 / (double)(second.ns - first.ns);
    clock_begin(&timebase->clock, timebase->tsc_hz, second.tsc, second.ns);
    timebase->error_ns = half_window_ns(timebase, &second);
    timebase->version = 1;
    timebase_follow(timebase);
    return 0;
}

static void note_error(struct timebase *timebase, int64_t offset_ns, int64_t half_ns) {
    const int64_t error_ns = (offset_ns < 0 ? -offset_ns : offset_ns) + half_ns;
    if (error_ns > timebase->largest_error_ns) {
        timebase->largest_error_ns = error_ns;
    }
}

void timebase_begin_run(struct timebase *timebase) {
    timebase->largest_error_ns = 0;
    timebase_measure(timebase);
}

void timebase_measure(struct timebase *timebase) {
    const struct both_clocks now = both_clocks_read();
    note_error(timebase, now.ns - line_ns(&timebase->clock.line, now.tsc), half_window_ns(timebase, &now));
}

void timebase_discipline(struct timebase *timebase) {
    const struct both_clocks now = both_clocks_read();
    clock_discipline(&timebase->clock, now.tsc, now.ns);
    timebase->error_ns = half_window_ns(timebase, &now);
    note_error(timebase, timebase->clock.offset_ns, timebase->error_ns);
    timebase->steps = (unsigned)timebase->clock.steps;
}
