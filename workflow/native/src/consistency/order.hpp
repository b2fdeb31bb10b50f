// The order component of the consistency of two trials: which common packets moved, and how far.
//
// Source: the CHOIR paper, section 3, equation 2, with the tie-breaks that docs/kappa.md derives.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace acapella::consistency {

// A common packet outside the kept subsequence. Ranks count from 0 within the intersection.
struct Move {
    std::uint32_t rank_a;
    std::uint32_t rank_b;
};

struct Order {
    std::uint64_t common = 0;
    std::uint64_t distance = 0;    // sum of |rank_a - rank_b| over the moved packets
    std::uint64_t inversions = 0;  // pairs of packets that stand in opposite orders
    std::vector<Move> moves;       // by rank in B
};

// `ranks[b]` is the rank in A of the common packet whose rank in B is `b`: a permutation of 0..n-1.
//
// Kept is a longest increasing subsequence; among these one with the largest sum of |rank_a - rank_b|, which
// makes the number moved and `distance` unique and symmetric in A and B; among the rest the one whose ranks
// in A are lexicographically smallest. O(n log n) time; memory O(longest block), where blocks lie between the
// cut points at which the first i packets of A and of B are the same set.
Order compare_order(std::span<const std::uint32_t> ranks);

}  // namespace acapella::consistency
