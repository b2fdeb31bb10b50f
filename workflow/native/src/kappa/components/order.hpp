// The order component of kappa: the common packets that moved, and their distances.
//
// Source: the CHOIR paper, section 3, equation 2, with the tie-breaks derived in docs/kappa.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "containers/memory_limit.hpp"
#include "kappa/sums.hpp"

namespace acapella::kappa {

// A common packet that is not in the kept subsequence. Ranks count from 0 among the common packets.
struct Move {
    std::uint32_t rank_a;
    std::uint32_t rank_b;
};

struct Order {
    std::uint64_t common = 0;
    std::uint64_t distance = 0;    // sum of |rank_a - rank_b| over the moved packets
    std::uint64_t inversions = 0;  // pairs of packets in opposite order
    std::vector<Move> moves;       // by rank in B
};

// `ranks[b]` is the rank in A of the common packet with rank `b` in B: a permutation of 0..n-1.
//
// The kept packets are a longest increasing subsequence. If there are several, one with the largest sum of
// |rank_a - rank_b| is kept, which makes the number of moved packets and `distance` unique and symmetric in A
// and B. If there are still several, the one whose ranks in A are lexicographically smallest is kept. Takes
// O(n log n) time and O(longest block) memory, where blocks are separated by the points at which the first i
// packets of A and of B are the same set.
Order compare_order(std::span<const std::uint32_t> ranks);

// Solves one block at a time. Reuses its memory, about 40 bytes per packet of the longest block.
class BlockSolver {
  public:
    // Memory per packet of a block: the arrays of the solver, the pending ranks (with windows, two copies),
    // and one move. The capacity of the vectors doubles as they grow.
    static constexpr std::uint64_t kBytesPerPacket = 96;

    // `memory_bytes` limits the blocks that callers collect.
    explicit BlockSolver(std::uint64_t memory_bytes = kUnlimited);
    ~BlockSolver();

    // Throws MemoryLimitError if a block of this many packets exceeds the limit.
    void check(std::size_t packets) const {
        if (packets > max_packets_) [[unlikely]]
            exceed();
    }

    // `ranks` is a permutation of offset..offset+size-1 for the packets with these ranks in B, in order.
    // Appends moves by rank in B and returns the number of inversions.
    std::uint64_t solve(std::span<const std::uint32_t> ranks, std::uint32_t offset, std::vector<Move>& moves);

  private:
    [[noreturn]] void exceed() const;

    struct Memory;
    std::unique_ptr<Memory> memory_;
    std::uint64_t max_packets_;
};

// Sums of signed moves, rank in A minus rank in B (the paper's Table 1).
struct MoveSums {
    std::uint64_t count = 0;
    SignedSum128 sum = 0;
    Sum128 sum_of_squares = 0;
    Sum128 absolute_sum = 0;
    std::int64_t smallest = 0;  // 0 if nothing moved
    std::int64_t largest = 0;

    void add(const Move& move);
};

// The sums of equation 2 and of Table 1. Packets are added in the order of B.
class OrderSums {
  public:
    explicit OrderSums(BlockSolver& solver) : solver_(&solver) {}

    void add(std::uint32_t rank_a) {
        if (rank_a == count_ && pending_.empty()) [[likely]] {
            ++count_;
            return;
        }
        add_to_block(rank_a);
    }

    [[nodiscard]] std::uint64_t common() const { return count_; }
    [[nodiscard]] std::uint64_t distance() const { return distance_; }
    [[nodiscard]] std::uint64_t inversions() const { return inversions_; }
    [[nodiscard]] const MoveSums& moves() const { return moves_; }
    // A burst is a maximal run of moved packets that are adjacent in both orders, so all of them moved by the
    // same distance. A burst never spans two blocks, because the last packet of a block would not have moved.
    [[nodiscard]] const MoveSums& bursts() const { return bursts_; }
    [[nodiscard]] std::uint64_t longest_burst() const { return longest_burst_; }
    // Returns true if no block is open.
    [[nodiscard]] bool all_blocks_closed() const { return pending_.empty(); }

  private:
    void add_to_block(std::uint32_t rank_a);
    void close_block();

    BlockSolver* solver_;
    std::uint32_t count_ = 0;
    std::uint32_t highest_ = 0;           // of the open block
    std::vector<std::uint32_t> pending_;  // ranks in the open block
    std::uint64_t distance_ = 0;
    std::uint64_t inversions_ = 0;
    MoveSums moves_;
    MoveSums bursts_;
    std::uint64_t longest_burst_ = 0;
};

}  // namespace acapella::kappa
