#include "common/clock_watch.h"

#include <stdlib.h>
#include <time.h>

#define ATTEMPTS 5

static int64_t now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

struct clock_reading clock_watch_read(void) {
    struct clock_reading best = {0, 0, INT64_MAX};
    for (int i = 0; i < ATTEMPTS; ++i) {
        struct clock_reading reading;
        reading.before_ns = now_ns(CLOCK_MONOTONIC);
        reading.real_ns = now_ns(CLOCK_REALTIME);
        reading.after_ns = now_ns(CLOCK_MONOTONIC);
        if (reading.after_ns - reading.before_ns < best.after_ns - best.before_ns) {
            best = reading;
        }
    }
    return best;
}

/* Half of the time between the readings, rounded up. */
static int64_t reading_error_ns(struct clock_reading reading) {
    return (reading.after_ns - reading.before_ns + 1) / 2;
}

static int64_t reading_offset_ns(struct clock_reading reading) {
    return reading.real_ns - reading.before_ns - (reading.after_ns - reading.before_ns) / 2;
}

void clock_watch_begin(struct clock_watch *watch, struct clock_reading reading) {
    *watch =
        (struct clock_watch){.offset_ns = reading_offset_ns(reading), .error_ns = reading_error_ns(reading)};
}

bool clock_watch_update(struct clock_watch *watch, struct clock_reading reading) {
    const int64_t step_ns = reading_offset_ns(reading) - watch->offset_ns;
    const bool stepped = llabs(step_ns) > watch->error_ns + reading_error_ns(reading) + CLOCK_WATCH_NS;
    if (stepped) {
        ++watch->steps;
        watch->largest_ns = llabs(step_ns) > llabs(watch->largest_ns) ? step_ns : watch->largest_ns;
    }
    if (stepped || reading_error_ns(reading) < watch->error_ns) {
        watch->offset_ns = reading_offset_ns(reading);
        watch->error_ns = reading_error_ns(reading);
    }
    return stepped;
}
