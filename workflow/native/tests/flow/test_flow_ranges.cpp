// Compares seen ranges with a set of positions.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "flow/seen_ranges.hpp"

namespace acapella {
namespace {

class CheckedRanges {
  public:
    void see_and_compare(std::uint64_t begin, std::uint64_t size) {
        std::uint64_t expected = 0;
        for (std::uint64_t at = begin; at < begin + size; ++at)
            expected += positions_.insert(at).second ? 0 : 1;
        const std::uint64_t seen = add_range({begin, begin + size}, newest_, !older_.empty(),
                                             [&]() -> OlderRanges& { return older_; });
        ASSERT_EQ(seen, expected) << begin << " + " << size;
        ASSERT_TRUE(older_.empty() || older_.last().end < newest_.begin);
    }

  private:
    Range newest_{0, 0};
    OlderRanges older_;
    std::set<std::uint64_t> positions_;
};

TEST(SeenRanges, RangesInOrderAreNotRepeated) {
    CheckedRanges ranges;
    for (std::uint64_t i = 0; i < 50; ++i) ranges.see_and_compare(1000 + 10 * i, 10);
}

TEST(SeenRanges, RandomRangesMatchASetOfPositions) {
    for (unsigned seed = 0; seed < 50; ++seed) {
        std::mt19937 random(seed);
        CheckedRanges ranges;
        for (int i = 0; i < 300; ++i)
            ranges.see_and_compare(1000 + random() % 700, 1 + random() % (seed + 5));
    }
}

TEST(SeenRanges, LowestRangeCanBeDropped) {
    OlderRanges older;
    older.push({10, 20});
    older.push({30, 40});
    older.pop_first();
    EXPECT_EQ(older.merge({10, 35}), 5);
}

}  // namespace
}  // namespace acapella
