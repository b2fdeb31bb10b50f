#include "common/clock.h"

#define TICK_SCALE ((double)(1ULL << 40))
#define GAIN 0.25 /* weight of the new rate in the average */

static void publish(struct clock *clock, struct clock_line line) {
    const unsigned version = atomic_load_explicit(&clock->version, memory_order_relaxed);
    atomic_store_explicit(&clock->version, version + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    clock->line = line;
    atomic_store_explicit(&clock->version, version + 2, memory_order_release);
}

static double limit_slew(double ratio) {
    return ratio > CLOCK_SLEW_MAX ? CLOCK_SLEW_MAX : ratio < -CLOCK_SLEW_MAX ? -CLOCK_SLEW_MAX : ratio;
}

void clock_begin(struct clock *clock, double hz, uint64_t counter, int64_t ns) {
    *clock = (struct clock){.rate = 1e9 / hz, .last_counter = counter, .last_ns = ns};
    publish(clock, (struct clock_line){counter, ns, (uint64_t)(clock->rate * TICK_SCALE)});
}

void clock_discipline(struct clock *clock, uint64_t counter, int64_t ns) {
    const uint64_t ticks = counter - clock->last_counter;
    const int64_t line = line_ns(&clock->line, counter);
    if (ticks == 0) {
        return;
    }
    const double elapsed_ns = clock->rate * (double)ticks;
    const int64_t system_ns = ns - clock->last_ns;
    clock->offset_ns = ns - line;
    clock->last_counter = counter;
    clock->last_ns = ns;
    ++clock->updates;
    if (clock->offset_ns > CLOCK_STEP_NS || clock->offset_ns < -CLOCK_STEP_NS) {
        ++clock->steps;
        publish(clock, (struct clock_line){counter, ns, (uint64_t)(clock->rate * TICK_SCALE)});
        return;
    }
    const int64_t size = clock->offset_ns < 0 ? -clock->offset_ns : clock->offset_ns;
    if (size > clock->largest_offset_ns) {
        clock->largest_offset_ns = size;
    }
    /* Limited, because a small step of the system clock looks like a different rate of the counter. */
    clock->rate *= 1 + GAIN * limit_slew((double)system_ns / elapsed_ns - 1);
    /* Unless limited, the offset is corrected by the next update. */
    const double slew = limit_slew((double)clock->offset_ns / elapsed_ns);
    publish(clock, (struct clock_line){counter, line, (uint64_t)(clock->rate * (1 + slew) * TICK_SCALE)});
}
