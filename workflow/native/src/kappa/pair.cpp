#include "kappa/pair.hpp"

namespace acapella::kappa {

void CommonPackets::count() {
    std::uint32_t total = 0;
    for (std::size_t i = 0; i < words_.size(); ++i) {
        before_[i] = total;
        total += static_cast<std::uint32_t>(__builtin_popcountll(words_[i]));
    }
}

PairSums::PairSums(MemoryBudget& budget, const PairOptions& options, const Trial& a,
                   const CommonPackets& common)
    : plan_(options.plan),
      common_in_a_(common),
      latency_(budget, options.bounds_ns),
      gap_(budget, options.bounds_ns),
      solver_(options.block_bytes),
      order_(solver_),
      spacing_(a, common),
      windows_(options.plan.count),
      window_orders_(options.plan.count, OrderSums(solver_)) {
    window_ranks_.reserve(plan_.count);
}

void PairSums::add_packet_of_a(const PacketTime& at) {
    spacing_.add_packet_of_a(at.since_ns);
    if (plan_.count > 0) {
        const std::size_t window = window_of(at.since_ns);
        while (window_ranks_.size() <= window) window_ranks_.push_back(common_in_a_.rank(packets_a_));
        Window& target = windows_[window];
        ++target.packets_a;
        target.gaps_a_sum += at.gap_ns;
    }
    ++packets_a_;
}

void PairSums::end_of_a() {
    window_ranks_.resize(plan_.count, 0);  // no packet of A is in the remaining windows
}

void PairSums::add_packet_only_in_b(const PacketTime& at) {
    if (plan_.count == 0) return;
    Window& target = windows_[window_of(at.since_ns)];
    ++target.packets_b;
    target.gaps_b_sum += at.gap_ns;
}

void PairSums::add_common_packet(std::uint32_t packet_a, const PacketTime& in_a, const PacketTime& in_b) {
    const auto latency = static_cast<std::int64_t>(in_b.since_ns - in_a.since_ns);
    const auto gap = static_cast<std::int64_t>(in_b.gap_ns - in_a.gap_ns);
    // Usually, this is the next packet and has the next rank.
    const std::uint32_t rank = packet_a == last_packet_ + 1 ? last_rank_ + 1 : common_in_a_.rank(packet_a);
    last_packet_ = packet_a;
    last_rank_ = rank;
    latency_.add(latency);
    gap_.add(gap);
    spacing_.add_common(packet_a, in_a.since_ns, order_.all_blocks_closed() && rank == order_.common());
    order_.add(rank);
    if (plan_.count == 0) return;
    const std::size_t window = window_of(in_a.since_ns);
    Window& target = windows_[window];
    ++target.packets_b;
    ++target.common;
    target.latency_sum += magnitude(latency);
    target.gap_sum += magnitude(gap);
    target.gaps_b_sum += in_b.gap_ns;
    window_orders_[window].add(rank - window_ranks_[window]);
}

void PairSums::finish(PairResult& result) {
    result.common = order_.common();
    result.latency = latency_.finish();
    result.offset_ns = latency_.signed_median();
    result.latency_offset_removed = latency_.around(result.offset_ns);
    result.gap = gap_.finish();
    result.latency_within.assign(latency_.within().begin(), latency_.within().end());
    result.gap_within.assign(gap_.within().begin(), gap_.within().end());
    result.latency_histogram = latency_.histogram();
    result.gap_histogram = gap_.histogram();
    result.spacing = spacing_.spacing();
    result.order_distance = order_.distance();
    result.inversions = order_.inversions();
    result.moves = order_.moves();
    result.bursts = order_.bursts();
    result.longest_burst = order_.longest_burst();
    for (std::size_t i = 0; i < windows_.size(); ++i) {
        windows_[i].order_distance = window_orders_[i].distance();
        windows_[i].order_moved = window_orders_[i].moves().count;
        windows_[i].inversions = window_orders_[i].inversions();
    }
    result.plan = plan_;
    result.windows = std::move(windows_);
}

}  // namespace acapella::kappa
