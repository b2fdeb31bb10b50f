#include "order.hpp"

#include <algorithm>

namespace acapella::consistency {
namespace {

// The best chain of kept packets from one packet to the end of its block.
struct Chain {
    std::uint32_t length = 0;
    std::uint64_t distance = 0;

    auto operator<=>(const Chain&) const = default;
};

std::uint64_t distance_of(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : b - a; }

// Maximum of `Chain` over the ranks above a given one; Fenwick tree over the reversed ranks.
class LongestAbove {
  public:
    void reset(std::size_t size) { tree_.assign(size + 1, Chain{}); }

    Chain above(std::size_t rank) const {
        Chain best;
        for (std::size_t i = tree_.size() - 2 - rank; i > 0; i &= i - 1) best = std::max(best, tree_[i]);
        return best;
    }

    void put(std::size_t rank, Chain chain) {
        for (std::size_t i = tree_.size() - 1 - rank; i < tree_.size(); i += i & (~i + 1))
            tree_[i] = std::max(tree_[i], chain);
    }

  private:
    std::vector<Chain> tree_;
};

// How many ranks below a given one were put.
class CountBelow {
  public:
    void reset(std::size_t size) { tree_.assign(size + 1, 0); }

    std::uint64_t below(std::size_t rank) const {
        std::uint64_t count = 0;
        for (std::size_t i = rank; i > 0; i &= i - 1) count += tree_[i];
        return count;
    }

    void put(std::size_t rank) {
        for (std::size_t i = rank + 1; i < tree_.size(); i += i & (~i + 1)) ++tree_[i];
    }

  private:
    std::vector<std::uint32_t> tree_;
};

// Works on one block at a time and keeps its memory from block to block.
class BlockSolver {
  public:
    // `ranks` is a permutation of offset..offset+size-1.
    void solve(std::span<const std::uint32_t> ranks, std::uint32_t offset, Order& order);

  private:
    void find_chains(std::span<const std::uint32_t> ranks, std::uint32_t offset, Order& order);
    void keep_smallest(std::span<const std::uint32_t> ranks, std::uint32_t offset);

    LongestAbove longest_;
    CountBelow count_;
    std::vector<Chain> chains_;            // by position in the block
    std::vector<std::uint32_t> level_;     // positions ordered by chain length, then by rank in A
    std::vector<std::uint32_t> level_at_;  // where each chain length starts in level_
    std::vector<std::uint32_t> position_;  // of each rank
    std::vector<bool> kept_;
};

void BlockSolver::find_chains(std::span<const std::uint32_t> ranks, std::uint32_t offset, Order& order) {
    const std::size_t size = ranks.size();
    longest_.reset(size);
    count_.reset(size);
    chains_.resize(size);
    for (std::size_t b = size; b-- > 0;) {
        const std::size_t a = ranks[b] - offset;
        Chain chain = longest_.above(a);
        ++chain.length;
        chain.distance += distance_of(a, b);
        chains_[b] = chain;
        longest_.put(a, chain);
        order.inversions += count_.below(a);
        count_.put(a);
    }
}

// Packets of one chain length have falling positions for rising ranks, so each level is walked once: from the
// smallest rank on, the first one that continues the chain optimally.
void BlockSolver::keep_smallest(std::span<const std::uint32_t> ranks, std::uint32_t offset) {
    const std::size_t size = ranks.size();
    const Chain best =
        *std::max_element(chains_.begin(), chains_.begin() + static_cast<std::ptrdiff_t>(size));
    level_at_.assign(best.length + 2, 0);
    for (std::size_t b = 0; b < size; ++b) ++level_at_[chains_[b].length + 1];
    for (std::size_t l = 1; l < level_at_.size(); ++l) level_at_[l] += level_at_[l - 1];
    position_.resize(size);
    for (std::size_t b = 0; b < size; ++b) position_[ranks[b] - offset] = static_cast<std::uint32_t>(b);
    level_.resize(size);
    std::vector<std::uint32_t> next(level_at_);
    for (std::size_t a = 0; a < size; ++a) level_[next[chains_[position_[a]].length]++] = position_[a];

    kept_.assign(size, false);
    Chain rest = best;
    std::int64_t last_position = -1;
    std::int64_t last_rank = -1;
    for (std::uint32_t length = best.length; length > 0; --length) {
        for (std::uint32_t i = level_at_[length]; i < level_at_[length + 1]; ++i) {
            const std::uint32_t b = level_[i];
            const std::int64_t a = ranks[b] - offset;
            if (chains_[b] != rest || a <= last_rank || b <= last_position) continue;
            kept_[b] = true;
            last_position = b;
            last_rank = a;
            rest = {length - 1, rest.distance - distance_of(static_cast<std::uint64_t>(a), b)};
            break;
        }
    }
}

void BlockSolver::solve(std::span<const std::uint32_t> ranks, std::uint32_t offset, Order& order) {
    find_chains(ranks, offset, order);
    keep_smallest(ranks, offset);
    for (std::size_t b = 0; b < ranks.size(); ++b) {
        if (kept_[b]) continue;
        const auto rank_b = static_cast<std::uint32_t>(offset + b);
        order.moves.push_back({ranks[b], rank_b});
        order.distance += distance_of(ranks[b], rank_b);
    }
}

}  // namespace

Order compare_order(std::span<const std::uint32_t> ranks) {
    Order order;
    order.common = ranks.size();
    BlockSolver solver;
    std::size_t start = 0;
    std::uint32_t highest = 0;
    for (std::size_t b = 0; b < ranks.size(); ++b) {
        highest = std::max(highest, ranks[b]);
        if (highest != b) continue;
        if (b > start)
            solver.solve(ranks.subspan(start, b + 1 - start), static_cast<std::uint32_t>(start), order);
        start = b + 1;
    }
    return order;
}

}  // namespace acapella::consistency
