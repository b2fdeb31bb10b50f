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
        struct clock_reading each;
        each.before_ns = now_ns(CLOCK_MONOTONIC);
        each.real_ns = now_ns(CLOCK_REALTIME);
        each.after_ns = now_ns(CLOCK_MONOTONIC);
        if (each.after_ns - each.before_ns < best.after_ns - best.before_ns) {
            best = each;
        }
    }
    return best;
}

/* Half of the time between the readings, rounded up. */
static int64_t error_of(struct clock_reading reading) {
    return (reading.after_ns - reading.before_ns + 1) / 2;
}

static int64_t offset_of(struct clock_reading reading) {
    return reading.real_ns - reading.before_ns - (reading.after_ns - reading.before_ns) / 2;
}

void clock_watch_begin(struct clock_watch *watch, struct clock_reading reading) {
    *watch = (struct clock_watch){.offset_ns = offset_of(reading), .error_ns = error_of(reading)};
}

bool clock_watch_update(struct clock_watch *watch, struct clock_reading reading) {
    const int64_t step_ns = offset_of(reading) - watch->offset_ns;
    const bool set = llabs(step_ns) > watch->error_ns + error_of(reading) + CLOCK_WATCH_NS;
    if (set) {
        ++watch->steps;
        watch->largest_ns = llabs(step_ns) > llabs(watch->largest_ns) ? step_ns : watch->largest_ns;
    }
    if (set || error_of(reading) < watch->error_ns) {
        watch->offset_ns = offset_of(reading);
        watch->error_ns = error_of(reading);
    }
    return set;
}
