#include <gtest/gtest.h>

#include <initializer_list>
#include <limits>
#include <random>

#include "input/clock_resolution.hpp"

namespace acapella::input {
namespace {

ClockResolution clock_of(std::initializer_list<std::int64_t> stamps) {
    ClockResolution clock;
    for (const std::int64_t stamp : stamps) {
        clock.add(stamp);
    }
    return clock;
}

TEST(ClockResolution, IsTheCoarsestGridOfAllTimestamps) {
    EXPECT_EQ(clock_of({}).resolution_ns(), 0);
    EXPECT_EQ(clock_of({0, 5'000'000'000}).resolution_ns(), 1'000'000'000);
    EXPECT_EQ(clock_of({1'700'000'000'000'250'000, 1'700'000'000'010'000'000}).resolution_ns(), 10'000);
    EXPECT_EQ(clock_of({1'700'000'000'000'001'000, 1'700'000'000'000'002'000}).resolution_ns(), 1'000);
    EXPECT_EQ(clock_of({1'000, 2'000, 2'007}).resolution_ns(), 1);
    EXPECT_EQ(clock_of({-3'000'000, 40'000'000}).resolution_ns(), 1'000'000);
    EXPECT_EQ(clock_of({std::numeric_limits<std::int64_t>::min()}).resolution_ns(), 1);
}

TEST(ClockResolution, AgreesWithDivision) {
    std::mt19937_64 random(7);
    for (int i = 0; i < 20000; ++i) {
        std::int64_t grid = 1;
        for (auto power = random() % 10; power > 0; --power) {
            grid *= 10;
        }
        const auto stamp = static_cast<std::int64_t>(random() % 4'000'000'000'000'000'000) / grid * grid;
        std::int64_t expected = 1'000'000'000;
        while (stamp % expected != 0) {
            expected /= 10;
        }
        ASSERT_EQ(clock_of({stamp}).resolution_ns(), expected) << stamp;
    }
}

TEST(ClockResolution, CountsEqualAndEarlierTimestamps) {
    const auto clock = clock_of({5, 5, 5, 4, 9});
    EXPECT_EQ(clock.equal(), 2U);
    EXPECT_EQ(clock.reversals(), 1U);
    EXPECT_EQ(clock.stamps(), 5U);
}

}  // namespace
}  // namespace acapella::input
