#include "common/both_clocks.h"

#include <rte_cycles.h>
#include <time.h>

#define ATTEMPTS 5

struct both_clocks both_clocks_read(void) {
    struct both_clocks best = {.window = UINT64_MAX};
    for (int i = 0; i < ATTEMPTS; ++i) {
        struct timespec now;
        const uint64_t before = rte_rdtsc_precise();
        clock_gettime(CLOCK_REALTIME, &now);
        const uint64_t after = rte_rdtsc_precise();
        if (after - before < best.window) {
            best = (struct both_clocks){.tsc = before + (after - before) / 2,
                                        .ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec,
                                        .window = after - before};
        }
    }
    return best;
}
