/* Simultaneous readings of the TSC and the system clock. */
#ifndef ACAPELLA_BOTH_CLOCKS_H
#define ACAPELLA_BOTH_CLOCKS_H

#include <stdint.h>

struct both_clocks {
    uint64_t tsc;
    int64_t ns;      /* CLOCK_REALTIME */
    uint64_t window; /* ticks between the readings of the TSC before and after that of the system clock */
};

/* Reads both clocks several times and returns the reading with the shortest window. The error is at most half
 * of the window. */
struct both_clocks both_clocks_read(void);

#endif
