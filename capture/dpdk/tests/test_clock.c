/* Tests of the clock: counters with a wrong rate, and system clocks that are noisy or stepped. */
#include <math.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/clock_watch.h"

#define SECOND 1000000000LL
#define START (1700000000LL * SECOND)
#define PERIOD_NS 100000000LL

/* Returns the value, at true time `ns`, of a counter that runs `ppm` parts per million fast. */
static uint64_t ticks_at(double hz, double ppm, int64_t ns) {
    return 12345 + (uint64_t)((long double)ns * hz * (1 + ppm * 1e-6) / 1e9L);
}

static int64_t noise(unsigned *seed) { return rand_r(seed) % 201 - 100; }

/* Returns the largest error after `settle` periods, for a counter that is `ppm` off its nominal rate. */
static int64_t largest_error(double hz, double ppm, int settle) {
    struct clock clock;
    unsigned seed = 1;
    int64_t largest = 0, latest = 0;
    clock_begin(&clock, hz, ticks_at(hz, ppm, 0), START);
    for (int period = 1; period < settle + 50; ++period) {
        const int64_t now = period * PERIOD_NS;
        clock_discipline(&clock, ticks_at(hz, ppm, now), START + now + noise(&seed));
        for (int64_t after = 0; after < PERIOD_NS; after += PERIOD_NS / 7) {
            const int64_t stamp = clock_ns(&clock, ticks_at(hz, ppm, now + after));
            const int64_t error = llabs(stamp - (START + now + after));
            CHECK(stamp >= latest);
            latest = stamp;
            largest = period >= settle && error > largest ? error : largest;
        }
    }
    CHECK(clock.steps == 0);
    return largest;
}

static void test_clock_follows_a_counter_with_a_wrong_rate(void) {
    const double ppm[] = {0, 3, -3, 100, -100, 400};
    const double hz[] = {25e6, 1e9, 2.6e9, 5e9};
    for (unsigned i = 0; i < sizeof ppm / sizeof *ppm; ++i) {
        for (unsigned j = 0; j < sizeof hz / sizeof *hz; ++j) {
            CHECK(largest_error(hz[j], ppm[i], 60) < 1000);
        }
    }
}

static void test_a_step_of_the_clock_is_followed_at_once_and_counted(void) {
    const double hz = 2.6e9;
    struct clock clock;
    clock_begin(&clock, hz, ticks_at(hz, 0, 0), START);
    clock_discipline(&clock, ticks_at(hz, 0, PERIOD_NS), START + PERIOD_NS);
    clock_discipline(&clock, ticks_at(hz, 0, 2 * PERIOD_NS), START + 2 * PERIOD_NS - 3 * SECOND);
    CHECK(clock.steps == 1);
    CHECK(llabs(clock_ns(&clock, ticks_at(hz, 0, 2 * PERIOD_NS)) - (START + 2 * PERIOD_NS - 3 * SECOND)) <=
          1);
    CHECK(clock.largest_offset_ns < 1000);
}

static void test_after_a_small_step_the_clock_is_slewed_and_never_goes_back(void) {
    const double hz = 2.6e9;
    const int64_t step_ns = -5000000;
    struct clock clock;
    int64_t latest = 0;
    clock_begin(&clock, hz, ticks_at(hz, 0, 0), START);
    for (int period = 1; period <= 400; ++period) {
        const int64_t now = period * PERIOD_NS;
        clock_discipline(&clock, ticks_at(hz, 0, now), START + now + step_ns);
        const int64_t stamp = clock_ns(&clock, ticks_at(hz, 0, now));
        CHECK(stamp > latest);
        latest = stamp;
    }
    CHECK(clock.steps == 0 && llabs(clock.largest_offset_ns + step_ns) < 1000);
    CHECK(llabs(latest - (START + 400 * PERIOD_NS + step_ns)) < 1000);
}

static void test_a_counter_value_before_the_start_of_the_line_is_converted(void) {
    const double hz = 1e9;
    struct clock clock;
    clock_begin(&clock, hz, 1000000, START);
    CHECK(clock_ns(&clock, 1000000 - 500) == START - 500);
}

/* Returns a reading with a window of `window` ns, of a clock that was stepped by `step_ns` ns. Its error is
 * `share` of half of the window. */
static struct clock_reading reading_at(int64_t mono_ns, int64_t window, double share, int64_t step_ns) {
    const int64_t real_ns = mono_ns + window / 2 + (int64_t)(share * (double)window / 2) + START + step_ns;
    return (struct clock_reading){mono_ns, real_ns, mono_ns + window};
}

static void test_a_watch_detects_only_steps(void) {
    const int64_t steps[] = {5000, -5000, 3 * SECOND, -86400 * SECOND, 1500000};
    struct clock_watch watch;
    int64_t now = 0, step_ns = 0;
    clock_watch_begin(&watch, reading_at(now, 200, 0, step_ns));
    for (unsigned i = 0; i < 200; ++i) { /* an interrupted reading has a long window */
        now += PERIOD_NS;
        CHECK(!clock_watch_update(
            &watch, reading_at(now, i % 7 ? 150 + i : 40000000, i % 2 ? 0.99 : -0.99, step_ns)));
    }
    for (unsigned i = 0; i < sizeof steps / sizeof *steps; ++i) {
        step_ns += steps[i];
        now += PERIOD_NS;
        CHECK(clock_watch_update(&watch, reading_at(now, 200, i % 2 ? 0.9 : -0.9, step_ns)));
        CHECK(watch.steps == i + 1 && !clock_watch_update(&watch, reading_at(now + 1000, 150, 0, step_ns)));
    }
    CHECK(llabs(watch.largest_ns + 86400 * SECOND) <= 200);
    step_ns += 100000; /* less than the error of the next reading */
    CHECK(!clock_watch_update(&watch, reading_at(now + 2000, 40000000, 0, step_ns)));
    CHECK(clock_watch_update(&watch, reading_at(now + 50000000, 200, 0, step_ns)));
    clock_watch_begin(&watch, clock_watch_read());
    CHECK(!clock_watch_update(&watch, clock_watch_read()) && watch.error_ns < SECOND);
}

int main(void) {
    test_clock_follows_a_counter_with_a_wrong_rate();
    test_a_step_of_the_clock_is_followed_at_once_and_counted();
    test_after_a_small_step_the_clock_is_slewed_and_never_goes_back();
    test_a_counter_value_before_the_start_of_the_line_is_converted();
    test_a_watch_detects_only_steps();
    puts("test_clock: ok");
    return 0;
}
