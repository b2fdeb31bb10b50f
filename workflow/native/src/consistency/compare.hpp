// The consistency of two trials of the same traffic: every sum that U, O, L, I and kappa are made of.
//
// Source: the CHOIR paper, section 3, equations 1 to 5. Everything is an integer; the one division of each
// component is left to the caller, so that partial results add up exactly.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "order.hpp"

namespace acapella::consistency {

__extension__ using Sum128 = unsigned __int128;
__extension__ using SignedSum128 = __int128;

// 128-bit hash of the bytes by which a packet is known again.
struct Identity {
    std::uint64_t high = 0;
    std::uint64_t low = 0;

    auto operator<=>(const Identity&) const = default;
};

// Packets in the order of (time, file, record); both spans have one element a packet, times are not rebased.
struct Trial {
    std::span<const Identity> identity;
    std::span<const std::int64_t> ts_ns;

    std::size_t size() const { return ts_ns.size(); }
    std::uint64_t duration_ns() const;
};

// Absolute differences over the common packets, in ns; quantiles are nearest rank, the median the lower one.
struct Deltas {
    Sum128 sum = 0;
    std::uint64_t median = 0;
    std::uint64_t p99 = 0;
    std::uint64_t largest = 0;
};

// Signed moves, rank in A minus rank in B, over the moved packets (the paper's Table 1).
struct MoveSums {
    SignedSum128 sum = 0;
    Sum128 sum_of_squares = 0;
    std::int64_t smallest = 0;
    std::int64_t largest = 0;
};

struct Comparison {
    std::uint64_t packets_a = 0;
    std::uint64_t packets_b = 0;
    std::uint64_t common = 0;
    std::uint64_t ambiguous_a = 0;  // packets of A whose identity occurs more than once in A
    std::uint64_t ambiguous_b = 0;
    std::uint64_t duration_a_ns = 0;
    std::uint64_t duration_b_ns = 0;
    Deltas latency;                         // |lA - lB|, each trial rebased to its first packet
    Deltas latency_offset_removed;          // the same less the lower median of lB - lA
    std::int64_t offset_ns = 0;             // that median
    Deltas gap;                             // |gA - gB|; gaps in the full trial, the first one 0
    std::vector<std::uint64_t> gap_within;  // common packets with |gA - gB| <= bound, for each bound asked
    Order order;
    MoveSums moves;
};

// The i-th packet of an identity in A is the i-th one in B. Where B has no such packet the index is
// kUnmatched.
inline constexpr std::uint32_t kUnmatched = UINT32_MAX;
std::vector<std::uint32_t> match(const Trial& a, const Trial& b);

// Trials of at most 2^32 - 2 packets. O(n log n) time; some 40 bytes a packet of memory.
Comparison compare(const Trial& a, const Trial& b, std::span<const std::uint64_t> gap_bounds_ns);

}  // namespace acapella::consistency
