// Compares the order component with brute force for all permutations of up to seven packets.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "kappa/components/order.hpp"

namespace {

using acapella::kappa::compare_order;
using acapella::kappa::Order;
using Ranks = std::vector<std::uint32_t>;

std::uint64_t distance(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : b - a; }

Ranks identity_order(std::uint32_t size) {
    Ranks ranks(size);
    std::iota(ranks.begin(), ranks.end(), 0U);
    return ranks;
}

Ranks inverse(const Ranks& ranks) {
    Ranks inverted(ranks.size());
    for (std::uint32_t b = 0; b < ranks.size(); ++b) inverted[ranks[b]] = b;
    return inverted;
}

Ranks kept_of(const Ranks& ranks, const Order& order) {
    std::vector<bool> moved(ranks.size());
    for (const auto& move : order.moves) moved[move.rank_b] = true;
    Ranks kept;
    for (std::size_t b = 0; b < ranks.size(); ++b)
        if (!moved[b]) kept.push_back(ranks[b]);
    return kept;
}

// Finds the best increasing subsequence by trying all of them.
struct BruteForce {
    Ranks kept;
    std::uint64_t kept_distance = 0;
    std::uint64_t distance = 0;
    std::uint64_t inversions = 0;

    explicit BruteForce(const Ranks& ranks) {
        for (std::size_t b = 0; b < ranks.size(); ++b) {
            distance += ::distance(ranks[b], b);
            for (std::size_t later = b + 1; later < ranks.size(); ++later)
                inversions += ranks[later] < ranks[b];
        }
        for (unsigned subset = 1; subset < 1U << ranks.size(); ++subset) consider(ranks, subset);
        distance -= kept_distance;
    }

    void consider(const Ranks& ranks, unsigned subset) {
        Ranks selected;
        std::uint64_t chosen_distance = 0;
        for (std::size_t b = 0; b < ranks.size(); ++b) {
            if (!(subset >> b & 1U)) continue;
            if (!selected.empty() && ranks[b] < selected.back()) return;
            selected.push_back(ranks[b]);
            chosen_distance += ::distance(ranks[b], b);
        }
        const bool longer = selected.size() > kept.size();
        const bool same = selected.size() == kept.size();
        if (!longer && !(same && chosen_distance > kept_distance) &&
            !(same && chosen_distance == kept_distance && selected < kept))
            return;
        kept = selected;
        kept_distance = chosen_distance;
    }
};

TEST(Order, MatchesBruteForceForAllPermutationsUpToSeven) {
    for (std::uint32_t size = 1; size <= 7; ++size) {
        Ranks ranks = identity_order(size);
        do {
            const Order order = compare_order(ranks);
            const BruteForce expected(ranks);
            ASSERT_EQ(kept_of(ranks, order), expected.kept);
            ASSERT_EQ(order.distance, expected.distance);
            ASSERT_EQ(order.inversions, expected.inversions);
        } while (std::next_permutation(ranks.begin(), ranks.end()));
    }
}

TEST(Order, IsSymmetricUnderExchangeOfTrials) {
    Ranks ranks = identity_order(7);
    do {
        const Order order = compare_order(ranks);
        const Order inverse_order = compare_order(inverse(ranks));
        ASSERT_EQ(order.moves.size(), inverse_order.moves.size());
        ASSERT_EQ(order.distance, inverse_order.distance);
        ASSERT_EQ(order.inversions, inverse_order.inversions);
    } while (std::next_permutation(ranks.begin(), ranks.end()));
}

TEST(Order, NoPacketsGiveAnEmptyResult) {
    const Order order = compare_order({});
    EXPECT_EQ(order.common, 0U);
    EXPECT_TRUE(order.moves.empty());
}

TEST(Order, ReversalKeepsOneEndPacket) {
    for (const std::uint32_t size : {2U, 3U, 10U, 1001U}) {
        Ranks ranks = identity_order(size);
        std::reverse(ranks.begin(), ranks.end());
        const Order order = compare_order(ranks);
        const std::uint64_t pairs = std::uint64_t{size} * (size - 1) / 2;
        EXPECT_EQ(order.moves.size(), size - 1);
        EXPECT_EQ(order.distance, std::uint64_t{size} * size / 2 - (size - 1));
        EXPECT_EQ(order.inversions, pairs);
    }
}

// The limit applies to one block, not to packets in order or to several blocks.
TEST(Order, BlockBeyondTheLimitThrows) {
    constexpr std::uint32_t kMax = 1000;
    const auto distance = [](std::uint32_t size, std::uint64_t memory_bytes) {
        acapella::kappa::BlockSolver solver(memory_bytes);
        acapella::kappa::OrderSums sums(solver);
        for (std::uint32_t round = 0; round < 3; ++round) {
            const std::uint32_t first = round * 3 * size;
            for (std::uint32_t i = 0; i < 2 * size; ++i) sums.add(first + i);
            for (std::uint32_t i = 0; i < size; ++i) sums.add(first + 3 * size - 1 - i);
        }
        return sums.distance();
    };
    const std::uint64_t bytes = kMax * acapella::kappa::BlockSolver::kBytesPerPacket;
    EXPECT_EQ(distance(kMax, bytes), distance(kMax, acapella::kUnlimited));
    EXPECT_GT(distance(kMax, bytes), 0U);
    EXPECT_THROW(distance(kMax + 1, bytes), acapella::MemoryLimitError);
}

TEST(Order, BlocksAddUp) {
    const Ranks first = {2, 0, 1};
    const Ranks second = {1, 0};
    const Ranks joined = {2, 0, 1, 3, 5, 4};
    EXPECT_EQ(compare_order(joined).distance, compare_order(first).distance + compare_order(second).distance);
    EXPECT_EQ(compare_order(joined).inversions,
              compare_order(first).inversions + compare_order(second).inversions);
}

}  // namespace
