/* Readings of the TSC and of the system clock at the same time. */
#ifndef ACAPELLA_BOTH_CLOCKS_H
#define ACAPELLA_BOTH_CLOCKS_H

#include <stdint.h>

struct both_clocks {
    uint64_t tsc;
    int64_t ns;      /* CLOCK_REALTIME */
    uint64_t window; /* ticks between the readings of the TSC before and after that of the system clock */
};

/* Of several attempts, returns the one with the shortest window: the error is at most half of it. */
struct both_clocks both_clocks_read(void);

#endif
