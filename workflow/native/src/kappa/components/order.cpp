#include "kappa/components/order.hpp"

#include <string>

namespace acapella::kappa {
namespace {

std::uint64_t distance_of(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : b - a; }

// The best chain of kept packets from one packet to the end of its block, as a number. The numbers compare
// like the lengths of the chains and, if these are equal, like the sums of their distances: the length is in
// the bits starting at kShift.
//
// In a block of n packets, no chain is longer than n, and the sum of the distances is at most n^2 / 2.
struct SmallChains {
    using Chain = std::uint64_t;
    static constexpr int kShift = 42;
    static constexpr std::size_t kMax = std::size_t{1} << 21;
};
struct LargeChains {
    using Chain = Sum128;
    static constexpr int kShift = 64;
};

// Maximum over the ranks above a given rank: a Fenwick tree over the reversed ranks.
template <typename Chain>
class LongestAbove {
  public:
    void reset(std::size_t size) { tree_.assign(size + 1, Chain{}); }

    Chain above(std::size_t rank) const {
        Chain best{};
        for (std::size_t i = tree_.size() - 2 - rank; i > 0; i &= i - 1) best = std::max(best, tree_[i]);
        return best;
    }

    void put(std::size_t rank, Chain chain) {
        for (std::size_t i = tree_.size() - 1 - rank; i < tree_.size(); i += i & (~i + 1)) {
            // All further nodes have at least this maximum.
            if (tree_[i] >= chain) break;
            tree_[i] = chain;
        }
    }

  private:
    std::vector<Chain> tree_;
};

// Counts the inserted ranks below a given rank.
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

template <typename Chains>
class Solver {
  public:
    using Chain = typename Chains::Chain;

    std::uint64_t solve(std::span<const std::uint32_t> ranks, std::uint32_t offset,
                        std::vector<Move>& moves) {
        const std::uint64_t inversions = find_chains(ranks, offset);
        keep_smallest(ranks, offset);
        for (std::size_t b = 0; b < ranks.size(); ++b)
            if (!kept_[b]) moves.push_back({ranks[b], static_cast<std::uint32_t>(offset + b)});
        return inversions;
    }

  private:
    static std::size_t length_of(Chain chain) { return static_cast<std::size_t>(chain >> Chains::kShift); }

    std::uint64_t find_chains(std::span<const std::uint32_t> ranks, std::uint32_t offset);
    void order_levels(std::span<const std::uint32_t> ranks, std::uint32_t offset, std::size_t longest);
    void keep_smallest(std::span<const std::uint32_t> ranks, std::uint32_t offset);

    LongestAbove<Chain> longest_;
    CountBelow count_;
    std::vector<Chain> chains_;            // by position in the block
    std::vector<std::uint32_t> level_;     // positions sorted by chain length, then by rank in A
    std::vector<std::uint32_t> level_at_;  // where each chain length starts in level_
    std::vector<std::uint32_t> position_;  // of each rank
    std::vector<bool> kept_;
};

template <typename Chains>
std::uint64_t Solver<Chains>::find_chains(std::span<const std::uint32_t> ranks, std::uint32_t offset) {
    const std::size_t size = ranks.size();
    longest_.reset(size);
    count_.reset(size);
    chains_.resize(size);
    std::uint64_t inversions = 0;
    for (std::size_t b = size; b-- > 0;) {
        const std::size_t a = ranks[b] - offset;
        const Chain chain = longest_.above(a) + (Chain{1} << Chains::kShift) + distance_of(a, b);
        chains_[b] = chain;
        longest_.put(a, chain);
        inversions += count_.below(a);
        count_.put(a);
    }
    return inversions;
}

template <typename Chains>
void Solver<Chains>::order_levels(std::span<const std::uint32_t> ranks, std::uint32_t offset,
                                  std::size_t longest) {
    const std::size_t size = ranks.size();
    level_at_.assign(longest + 2, 0);
    for (std::size_t b = 0; b < size; ++b) ++level_at_[length_of(chains_[b]) + 1];
    for (std::size_t l = 1; l < level_at_.size(); ++l) level_at_[l] += level_at_[l - 1];
    position_.resize(size);
    for (std::size_t b = 0; b < size; ++b) position_[ranks[b] - offset] = static_cast<std::uint32_t>(b);
    level_.resize(size);
    std::vector<std::uint32_t> next(level_at_);
    for (std::size_t a = 0; a < size; ++a) level_[next[length_of(chains_[position_[a]])]++] = position_[a];
}

// Among packets with the same chain length, positions decrease as ranks increase. So each level is traversed
// once, from the smallest rank to the first one that continues the chain optimally.
template <typename Chains>
void Solver<Chains>::keep_smallest(std::span<const std::uint32_t> ranks, std::uint32_t offset) {
    const std::size_t size = ranks.size();
    const Chain best =
        *std::max_element(chains_.begin(), chains_.begin() + static_cast<std::ptrdiff_t>(size));
    order_levels(ranks, offset, length_of(best));
    kept_.assign(size, false);
    Chain rest = best;
    std::int64_t last_position = -1;
    std::int64_t last_rank = -1;
    for (std::size_t length = length_of(best); length > 0; --length) {
        for (std::uint32_t i = level_at_[length]; i < level_at_[length + 1]; ++i) {
            const std::uint32_t b = level_[i];
            const std::int64_t a = ranks[b] - offset;
            if (chains_[b] != rest || a <= last_rank || b <= last_position) continue;
            kept_[b] = true;
            last_position = b;
            last_rank = a;
            rest -= (Chain{1} << Chains::kShift) + distance_of(static_cast<std::uint64_t>(a), b);
            break;
        }
    }
}

}  // namespace

struct BlockSolver::Memory {
    Solver<SmallChains> small;
    Solver<LargeChains> large;
};

BlockSolver::BlockSolver(std::uint64_t memory_bytes)
    : memory_(std::make_unique<Memory>()), max_packets_(memory_bytes / kBytesPerPacket) {}
BlockSolver::~BlockSolver() = default;

void BlockSolver::exceed() const {
    throw MemoryLimitError("more than " + std::to_string(max_packets_) +
                           " packets in a row are out of order, which needs more than the " +
                           std::to_string((max_packets_ * kBytesPerPacket) >> 20U) +
                           " MiB that the memory limit leaves for them");
}

std::uint64_t BlockSolver::solve(std::span<const std::uint32_t> ranks, std::uint32_t offset,
                                 std::vector<Move>& moves) {
    return ranks.size() <= SmallChains::kMax ? memory_->small.solve(ranks, offset, moves)
                                             : memory_->large.solve(ranks, offset, moves);
}

void MoveSums::add(const Move& move) {
    const std::int64_t moved = std::int64_t{move.rank_a} - std::int64_t{move.rank_b};
    sum += moved;
    sum_of_squares += static_cast<Sum128>(static_cast<SignedSum128>(moved) * moved);
    absolute_sum += magnitude(moved);
    smallest = count == 0 ? moved : std::min(smallest, moved);
    largest = count == 0 ? moved : std::max(largest, moved);
    ++count;
}

void OrderSums::add_to_block(std::uint32_t rank_a) {
    highest_ = pending_.empty() ? rank_a : std::max(highest_, rank_a);
    pending_.push_back(rank_a);
    solver_->check(pending_.size());
    ++count_;
    if (highest_ + std::uint64_t{1} == count_) close_block();
}

void OrderSums::close_block() {
    std::vector<Move> moves;
    inversions_ += solver_->solve(pending_, static_cast<std::uint32_t>(count_ - pending_.size()), moves);
    // Free the memory of a long block. Short blocks are frequent.
    constexpr std::size_t kLong = std::size_t{1} << 16;
    if (pending_.capacity() > kLong) std::vector<std::uint32_t>().swap(pending_);
    pending_.clear();
    std::uint64_t run = 0;
    for (std::size_t i = 0; i < moves.size(); ++i) {
        const Move& move = moves[i];
        const bool continues =
            i > 0 && move.rank_a == moves[i - 1].rank_a + 1 && move.rank_b == moves[i - 1].rank_b + 1;
        run = continues ? run + 1 : 1;
        longest_burst_ = std::max(longest_burst_, run);
        if (!continues) bursts_.add(move);
        moves_.add(move);
        distance_ += distance_of(move.rank_a, move.rank_b);
    }
}

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
            order.inversions += solver.solve(ranks.subspan(start, b + 1 - start),
                                             static_cast<std::uint32_t>(start), order.moves);
        start = b + 1;
    }
    for (const Move& move : order.moves) order.distance += distance_of(move.rank_a, move.rank_b);
    return order;
}

}  // namespace acapella::kappa
