// The sums from which kappa of two trials is computed.
//
// Source: the CHOIR paper, section 3, equations 1 to 5. All sums are integers, so that partial results add up
// exactly. The caller performs the final division of each component.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kappa/components/deltas.hpp"
#include "kappa/components/order.hpp"
#include "kappa/components/spacing.hpp"
#include "kappa/matching.hpp"

namespace acapella::kappa {

// The time of a packet in its own trial.
struct PacketTime {
    std::uint64_t since_ns = 0;  // since the trial's first packet
    std::uint64_t gap_ns = 0;    // since the previous packet of the full trial; 0 for the first
};

// Windows of equal width, starting at the first packet of a trial.
struct WindowPlan {
    std::uint64_t width_ns = 1;
    std::size_t count = 0;

    [[nodiscard]] std::size_t of(std::uint64_t since_ns) const { return since_ns / width_ns; }
};

// Common packets and packets only in A are counted in the window of their time in A; packets only in B, in
// the window of their time in B.
struct Window {
    std::uint64_t packets_a = 0;
    std::uint64_t packets_b = 0;
    std::uint64_t common = 0;
    Sum128 latency_sum = 0;
    Sum128 gap_sum = 0;
    Sum128 gaps_a_sum = 0;
    Sum128 gaps_b_sum = 0;
    std::uint64_t order_distance = 0;  // by ranks among the window's common packets
    std::uint64_t order_moved = 0;
    std::uint64_t inversions = 0;
};

struct PairResult {
    std::uint64_t packets_a = 0;
    std::uint64_t packets_b = 0;
    std::uint64_t common = 0;
    Ambiguous ambiguous;
    bool first_common_a = false;  // true if the first packet of A is in B
    bool first_common_b = false;
    std::uint64_t duration_a_ns = 0;
    std::uint64_t duration_b_ns = 0;
    Deltas latency;                             // of lB - lA, each relative to the trial's first packet
    Deltas latency_offset_removed;              // the same minus offset_ns
    std::int64_t offset_ns = 0;                 // the lower median of lB - lA
    Deltas gap;                                 // of gB - gA
    std::vector<std::uint64_t> latency_within;  // common packets with |lB - lA| <= threshold, by threshold
    std::vector<std::uint64_t> gap_within;
    std::uint64_t order_distance = 0;
    std::uint64_t inversions = 0;
    MoveSums moves;
    MoveSums bursts;
    std::uint64_t longest_burst = 0;
    LogHistogram latency_histogram;
    LogHistogram gap_histogram;
    Spacing spacing;
    WindowPlan plan;
    std::vector<Window> windows;
};

// The common packets, as packets of A, and their ranks.
class CommonPackets {
  public:
    explicit CommonPackets(std::uint64_t packets) : words_(packets / 64 + 1), before_(words_.size()) {}

    void put(std::uint32_t packet) { words_[packet / 64] |= std::uint64_t{1} << packet % 64; }
    // Call after the last put().
    void count();
    [[nodiscard]] bool has(std::uint64_t packet) const { return words_[packet / 64] >> packet % 64 & 1; }
    [[nodiscard]] std::uint32_t rank(std::uint64_t packet) const {
        const std::uint64_t below = words_[packet / 64] & ((std::uint64_t{1} << packet % 64) - 1);
        return before_[packet / 64] + static_cast<std::uint32_t>(__builtin_popcountll(below));
    }

  private:
    std::vector<std::uint64_t> words_;
    std::vector<std::uint32_t> before_;
};

struct PairOptions {
    std::vector<std::uint64_t> bounds_ns;
    WindowPlan plan;
    std::uint64_t block_bytes = kUnlimited;  // as in BlockSolver
};

// Computes the sums. Add every packet of A, then every packet of B, each in order.
class PairSums {
  public:
    PairSums(MemoryBudget& budget, const PairOptions& options, const Trial& a, const CommonPackets& common);

    void add_packet_of_a(const PacketTime& at);
    void end_of_a();
    void add_packet_only_in_b(const PacketTime& at);
    void add_common_packet(std::uint32_t packet_a, const PacketTime& in_a, const PacketTime& in_b);
    // Fills in the sums.
    void finish(PairResult& result);

  private:
    [[nodiscard]] std::size_t window_of(std::uint64_t since_ns) {
        // Most packets are in the same window as the previous one.
        if (since_ns - window_from_ >= plan_.width_ns) [[unlikely]] {
            window_ = plan_.of(since_ns);
            window_from_ = window_ * plan_.width_ns;
        }
        return window_;
    }

    WindowPlan plan_;
    const CommonPackets& common_in_a_;
    std::uint64_t packets_a_ = 0;
    std::uint64_t last_packet_ = ~std::uint64_t{1};  // of A; initially a number that no packet follows
    std::uint32_t last_rank_ = 0;
    std::size_t window_ = 0;
    std::uint64_t window_from_ = 0;
    DeltaSums latency_;
    DeltaSums gap_;
    BlockSolver solver_;
    OrderSums order_;
    SpacingSums spacing_;
    std::vector<Window> windows_;
    std::vector<OrderSums> window_orders_;
    std::vector<std::uint32_t> window_ranks_;  // number of common packets of A before each window
};

}  // namespace acapella::kappa
