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

void timebase_discipline(struct timebase *timebase) {
    const struct both_clocks now = both_clocks_read();
    clock_discipline(&timebase->clock, now.tsc, now.ns);
    timebase->error_ns = half_window_ns(timebase, &now);
    timebase->steps = (unsigned)timebase->clock.steps;
}
