#include "compare.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace acapella::consistency {
namespace {

constexpr std::uint32_t kNone = UINT32_MAX;

// Queues of the packets of one trial by identity, each in trial order. Identities are hashes already, so a
// part of them addresses the slots.
class Occurrences {
  public:
    explicit Occurrences(std::span<const Identity> identities)
        : identities_(identities),
          mask_(std::bit_ceil(identities.size() * 2 + 1) - 1),
          heads_(mask_ + 1, kNone),
          next_(identities.size(), kNone) {
        // From the last packet to the first, so that each queue's head is its first packet.
        for (std::size_t i = identities.size(); i-- > 0;) {
            std::uint32_t& head = heads_[slot_of(identities[i])];
            next_[i] = head;
            head = static_cast<std::uint32_t>(i);
        }
    }

    // The first packet of this identity that was not taken yet, or kNone.
    std::uint32_t take(const Identity& identity) {
        const std::size_t slot = slot_of(identity);
        const std::uint32_t packet = heads_[slot];
        if (packet == kNone || packet == kExhausted) return kNone;
        heads_[slot] = next_[packet] == kNone ? kExhausted : next_[packet];
        return packet;
    }

    std::uint64_t ambiguous() const {
        std::uint64_t packets = 0;
        for (const std::uint32_t head : heads_) {
            if (head == kNone || next_[head] == kNone) continue;
            for (std::uint32_t i = head; i != kNone; i = next_[i]) ++packets;
        }
        return packets;
    }

  private:
    // A taken queue still holds its slot, so that probing goes past it; its identity is not needed any more,
    // because only an equal one could have been taken from it.
    static constexpr std::uint32_t kExhausted = UINT32_MAX - 1;

    std::size_t slot_of(const Identity& identity) const {
        std::size_t slot = identity.low & mask_;
        while (heads_[slot] != kNone && (heads_[slot] == kExhausted || identities_[heads_[slot]] != identity))
            slot = (slot + 1) & mask_;
        return slot;
    }

    std::span<const Identity> identities_;
    std::size_t mask_;
    std::vector<std::uint32_t> heads_;
    std::vector<std::uint32_t> next_;
};

// Nearest rank: the ceil(n * percent / 100)-th smallest, from 1.
std::size_t nearest_rank(std::size_t count, std::size_t percent) { return (count * percent + 99) / 100 - 1; }

template <typename Value>
Value select(std::vector<Value>& values, std::size_t rank) {
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(rank);
    std::nth_element(values.begin(), at, values.end());
    return *at;
}

Deltas summarize(std::vector<std::uint64_t>& absolute) {
    Deltas deltas;
    if (absolute.empty()) return deltas;
    for (const std::uint64_t value : absolute) deltas.sum += value;
    deltas.largest = *std::max_element(absolute.begin(), absolute.end());
    deltas.median = select(absolute, nearest_rank(absolute.size(), 50));
    deltas.p99 = select(absolute, nearest_rank(absolute.size(), 99));
    return deltas;
}

// Differences of stamps wrap like the stamps themselves and never overflow as signed arithmetic would.
std::uint64_t since(std::int64_t later, std::int64_t earlier) {
    return static_cast<std::uint64_t>(later) - static_cast<std::uint64_t>(earlier);
}

std::uint64_t magnitude(std::int64_t value) {
    return value < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(value)
                     : static_cast<std::uint64_t>(value);
}

std::uint64_t gap_before(const Trial& trial, std::size_t i) {
    return i == 0 ? 0 : since(trial.ts_ns[i], trial.ts_ns[i - 1]);
}

std::vector<std::uint32_t> ranks_in_a(std::size_t packets_a, const std::vector<std::uint32_t>& matches,
                                      std::uint64_t common) {
    std::vector<std::uint32_t> rank_of(packets_a, 0);
    for (const std::uint32_t a : matches)
        if (a != kUnmatched) rank_of[a] = 1;
    std::uint32_t rank = 0;
    for (std::uint32_t& slot : rank_of) {
        const std::uint32_t present = slot;
        slot = rank;
        rank += present;
    }
    std::vector<std::uint32_t> ranks;
    ranks.reserve(common);
    for (const std::uint32_t a : matches)
        if (a != kUnmatched) ranks.push_back(rank_of[a]);
    return ranks;
}

void compare_latency(const Trial& a, const Trial& b, const std::vector<std::uint32_t>& matches,
                     Comparison& result) {
    std::vector<std::int64_t> offsets;
    offsets.reserve(result.common);
    for (std::size_t i = 0; i < b.size(); ++i) {
        if (matches[i] == kUnmatched) continue;
        offsets.push_back(static_cast<std::int64_t>(since(b.ts_ns[i], b.ts_ns[0]) -
                                                    since(a.ts_ns[matches[i]], a.ts_ns[0])));
    }
    if (offsets.empty()) return;
    std::vector<std::uint64_t> absolute(offsets.size());
    std::transform(offsets.begin(), offsets.end(), absolute.begin(), magnitude);
    result.latency = summarize(absolute);
    const std::int64_t median = select(offsets, nearest_rank(offsets.size(), 50));
    result.offset_ns = median;
    std::transform(offsets.begin(), offsets.end(), absolute.begin(), [median](std::int64_t offset) {
        return offset < median ? since(median, offset) : since(offset, median);
    });
    result.latency_offset_removed = summarize(absolute);
}

void compare_gaps(const Trial& a, const Trial& b, const std::vector<std::uint32_t>& matches,
                  std::span<const std::uint64_t> bounds, Comparison& result) {
    std::vector<std::uint64_t> absolute;
    absolute.reserve(result.common);
    result.gap_within.assign(bounds.size(), 0);
    for (std::size_t i = 0; i < b.size(); ++i) {
        if (matches[i] == kUnmatched) continue;
        const std::uint64_t gap_a = gap_before(a, matches[i]);
        const std::uint64_t gap_b = gap_before(b, i);
        const std::uint64_t difference = gap_a > gap_b ? gap_a - gap_b : gap_b - gap_a;
        absolute.push_back(difference);
        for (std::size_t k = 0; k < bounds.size(); ++k) result.gap_within[k] += difference <= bounds[k];
    }
    result.gap = summarize(absolute);
}

MoveSums sum_moves(const std::vector<Move>& moves) {
    MoveSums sums;
    for (std::size_t i = 0; i < moves.size(); ++i) {
        const std::int64_t moved = std::int64_t{moves[i].rank_a} - std::int64_t{moves[i].rank_b};
        sums.sum += moved;
        sums.sum_of_squares += static_cast<Sum128>(static_cast<SignedSum128>(moved) * moved);
        sums.smallest = i == 0 ? moved : std::min(sums.smallest, moved);
        sums.largest = i == 0 ? moved : std::max(sums.largest, moved);
    }
    return sums;
}

void check(const Trial& trial) {
    if (trial.identity.size() != trial.ts_ns.size())
        throw std::invalid_argument("one identity and one time a packet");
    if (trial.size() >= UINT32_MAX - 1) throw std::invalid_argument("a trial holds at most 2^32 - 2 packets");
    if (!std::is_sorted(trial.ts_ns.begin(), trial.ts_ns.end()))
        throw std::invalid_argument("a trial's packets are sorted by time");
}

}  // namespace

std::uint64_t Trial::duration_ns() const { return ts_ns.empty() ? 0 : since(ts_ns.back(), ts_ns.front()); }

std::vector<std::uint32_t> match(const Trial& a, const Trial& b) {
    Occurrences waiting(a.identity);
    std::vector<std::uint32_t> matches(b.size());
    std::transform(b.identity.begin(), b.identity.end(), matches.begin(),
                   [&waiting](const Identity& identity) { return waiting.take(identity); });
    return matches;
}

Comparison compare(const Trial& a, const Trial& b, std::span<const std::uint64_t> gap_bounds_ns) {
    check(a);
    check(b);
    Comparison result;
    result.packets_a = a.size();
    result.packets_b = b.size();
    result.duration_a_ns = a.duration_ns();
    result.duration_b_ns = b.duration_ns();
    const std::vector<std::uint32_t> matches = match(a, b);
    result.common = static_cast<std::uint64_t>(std::count_if(
        matches.begin(), matches.end(), [](std::uint32_t packet) { return packet != kUnmatched; }));
    compare_latency(a, b, matches, result);
    compare_gaps(a, b, matches, gap_bounds_ns, result);
    result.order = compare_order(ranks_in_a(a.size(), matches, result.common));
    result.moves = sum_moves(result.order.moves);
    result.ambiguous_a = Occurrences(a.identity).ambiguous();
    result.ambiguous_b = Occurrences(b.identity).ambiguous();
    return result;
}

}  // namespace acapella::consistency
