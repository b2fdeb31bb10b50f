/* Detects steps of the system clock. Without a step, CLOCK_REALTIME minus CLOCK_MONOTONIC is constant,
 * because adjtimex(2) slews both clocks by the same amount. */
#ifndef ACAPELLA_CLOCK_WATCH_H
#define ACAPELLA_CLOCK_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#define CLOCK_WATCH_NS 1000 /* smallest step detected, in addition to the errors of both readings */

/* CLOCK_REALTIME, read between two readings of CLOCK_MONOTONIC. */
struct clock_reading {
    int64_t before_ns, real_ns, after_ns;
};

struct clock_watch {
    /* CLOCK_REALTIME minus CLOCK_MONOTONIC, of the most accurate reading since the last step */
    int64_t offset_ns, error_ns;
    uint64_t steps;
    int64_t largest_ns; /* step with the largest absolute value, with its sign */
};

struct clock_reading clock_watch_read(void);
void clock_watch_begin(struct clock_watch *watch, struct clock_reading reading);

/* Returns true if the clock was stepped since the previous reading. */
bool clock_watch_update(struct clock_watch *watch, struct clock_reading reading);

#endif
