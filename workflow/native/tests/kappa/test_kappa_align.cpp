// Comparisons of numbered trials match those of trials from captures, in memory and with files.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <vector>

#include "kappa/align.hpp"

namespace {

using namespace acapella::kappa;

const std::string kDirectory = std::filesystem::temp_directory_path();

struct Packets {
    std::vector<std::uint32_t> keys;
    std::vector<std::int64_t> timestamps;

    [[nodiscard]] NumberedTrial numbered() const { return {keys, timestamps}; }
};

PairResult compare(const Packets& a, const Packets& b, std::uint64_t memory_bytes) {
    return compare_numbered(a.numbered(), b.numbered(), {{10}, {}, {}}, memory_bytes, kDirectory);
}

TEST(NumberedTrials, AreSortedByTime) {
    const Packets a{{7, 3, 5}, {300, 100, 200}};
    const Packets b{{3, 5, 7}, {1100, 1200, 1300}};
    const PairResult result = compare(a, b, 1 << 20);
    EXPECT_EQ(result.common, 3U);
    EXPECT_EQ(result.order_distance, 0U);
    EXPECT_TRUE(result.latency.sum == 0 && result.gap.sum == 0);
    EXPECT_EQ(result.duration_a_ns, 200U);
}

TEST(NumberedTrials, AreTheSameInMemoryAndInFiles) {
    std::mt19937 draw(1);
    Packets a;
    Packets b;
    for (std::uint32_t key = 0; key < 30'000; ++key) {
        if (draw() % 20 != 0) {
            a.keys.push_back(key);
            a.timestamps.push_back(std::int64_t{1000} * key + draw() % 3000);
        }
        if (draw() % 20 != 0) {
            b.keys.push_back(key);
            b.timestamps.push_back(std::int64_t{1000} * key + draw() % 3000);
        }
    }
    const PairResult in_memory = compare(a, b, std::uint64_t{1} << 30);
    const PairResult in_files = compare(a, b, 0);
    EXPECT_GT(in_memory.order_distance, 0U);
    EXPECT_LT(in_memory.common, a.keys.size());
    EXPECT_EQ(in_memory.common, in_files.common);
    EXPECT_EQ(in_memory.order_distance, in_files.order_distance);
    EXPECT_TRUE(in_memory.gap.sum == in_files.gap.sum && in_memory.latency.sum == in_files.latency.sum);
}

TEST(NumberedTrials, MayBeEmpty) {
    const Packets empty;
    const Packets single{{0}, {5}};
    EXPECT_EQ(compare(empty, single, 1 << 20).common, 0U);
    EXPECT_EQ(compare(empty, empty, 1 << 20).packets_a, 0U);
}

}  // namespace
