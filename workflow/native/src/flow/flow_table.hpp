// The statistics of every flow of a sample. Frames are added in file order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "containers/pool.hpp"
#include "flow/flow_counts.hpp"
#include "flow/flow_keys.hpp"
#include "flow/peers.hpp"
#include "flow/tcp_state.hpp"
#include "frame/frame_row.hpp"

namespace acapella {

inline constexpr std::uint32_t kMaxRuns = 16;
inline constexpr std::uint64_t kMaxFrames = (std::uint64_t{1} << 55) - 1;  // 500 petabytes of headers

__extension__ using UInt128 = unsigned __int128;

// A 128-bit integer with the alignment of its halves.
class PackedUInt128 {
  public:
    PackedUInt128() = default;
    explicit PackedUInt128(UInt128 value)
        : low_(static_cast<std::uint64_t>(value)), high_(static_cast<std::uint64_t>(value >> 64)) {}
    UInt128 value() const { return static_cast<UInt128>(high_) << 64 | low_; }

  private:
    std::uint64_t low_ = 0;
    std::uint64_t high_ = 0;
};

// Returns the difference of two timestamps, clamped if it overflows.
inline std::int64_t saturating_difference(std::int64_t a, std::int64_t b) {
    std::int64_t difference = 0;
    if (__builtin_sub_overflow(a, b, &difference)) return a < b ? INT64_MIN : INT64_MAX;
    return difference;
}

// The application tokens of one frame.
struct FrameApplication {
    std::span<const std::uint32_t> tokens;  // rows of the token table; empty: none
    bool carried_over = false;              // predicted from other frames of the flow
};

// Millions of these may be in memory, so their size determines the memory use of a digest.
struct FlowState {
    std::int64_t first_ns;  // of the first frame of the flow, in file order, that has a timestamp
    std::int64_t previous_ns;
    std::int64_t iat_min_ns = INT64_MAX;
    std::int64_t iat_max_ns = INT64_MIN;
    PackedUInt128 iat_squares{};
    std::uint64_t frames = 0;
    std::uint64_t wire_bytes = 0;
    std::uint64_t ip_bytes = 0;
    std::uint64_t payload_bytes = 0;
    std::uint64_t run_start : 55 = 0;  // number of frames before the current run of equal stacks
    std::uint64_t runs : 5 = 1;
    std::uint64_t runs_cut : 1 = false;
    std::uint64_t time_went_back : 1 = false;
    std::uint64_t starts_with_syn : 1 = false;
    std::uint64_t application_carried_over : 1 = false;
    std::uint32_t wire_len_min = UINT32_MAX;
    std::uint32_t wire_len_max = 0;
    std::uint32_t run_stack;
    std::uint32_t counts = FlowCounts::kEnd;  // its application counts and completed runs
    std::uint32_t tcp = kNone;
    std::uint32_t key;
};
static_assert(sizeof(FlowState) == 112 && kMaxRuns < 1U << 5);

class FlowTable {
  public:
    explicit FlowTable(const FlowKeys& keys) : keys_(keys), peers_(keys) {}

    // Adds a frame to its flow. Returns the flow's number (flows are numbered in order of appearance), or
    // kNone for a row without a key. `stack` is the row's final header stack, a HeaderStacks row.
    std::uint32_t add(const FrameRow& row, std::uint32_t stack, const FrameApplication& application);

    // Prefetch the data that add() reads and writes for this key. Call the first function many frames ahead,
    // the second one a few frames ahead. With many flows, memory latency dominates the cost.
    void prefetch_flow(std::uint32_t key) const;
    void prefetch_tcp(std::uint32_t key) const;

    std::uint32_t size() const { return flows_.size(); }
    std::uint64_t bytes() const {  // memory use
        return peers_.bytes() + number_of_key_.capacity() * sizeof(std::uint32_t) + flows_.bytes() +
               tcp_.bytes() + counts_.bytes() + older_ranges_.bytes() + older_ranges_total_ * sizeof(Range) +
               map_bytes(times_) + map_bytes(untimed_) + map_bytes(carries_) + map_bytes(long_round_trips_);
    }
    const FlowState& flow(std::uint32_t number) const { return flows_[number]; }
    const TcpState* tcp(std::uint32_t number) const;
    std::uint64_t flag_count(std::uint32_t number, FlagCount flag) const;
    // Undefined if no frame has a timestamp.
    std::pair<std::int64_t, std::int64_t> first_and_last_ns(std::uint32_t number) const;
    std::uint64_t timed_frames(std::uint32_t number) const;
    std::uint32_t peer(std::uint32_t number) const;
    // Call this function and flag_count() only for flows for which tcp() is not null.
    std::uint64_t retransmitted_bytes(std::uint32_t number) const;
    std::optional<std::uint64_t> duplicate_acks(std::uint32_t number) const;
    std::optional<std::int64_t> handshake_rtt_ns(std::uint32_t number) const;
    // Returns true if a FIN or RST was seen in either direction.
    bool is_closed(std::uint32_t number) const;
    std::uint32_t peer_candidates(std::uint32_t number) const;
    // Number of flows with candidates but no peer.
    std::uint64_t peers_ambiguous() const;
    // Returns the header stacks in order, run-length encoded; at most kMaxRuns.
    std::vector<StackRun> runs(std::uint32_t number) const;
    // Returns application tokens (rows) and the number of frames with each.
    std::vector<std::pair<std::uint32_t, std::uint64_t>> applications(std::uint32_t number) const;

    // Number of sequence ranges dropped because one flow, or all flows together, had too many gaps.
    std::uint64_t ranges_forgotten() const { return ranges_forgotten_; }

  private:
    FlowKey key_of(std::uint32_t number) const { return keys_.key(flows_[number].key); }
    std::uint32_t number_of(const FrameRow& row, std::uint32_t stack);
    std::uint64_t untimed(std::uint32_t number) const;
    void add_time(FlowState& flow, std::uint32_t number, std::int64_t ts_ns);
    void widen_times(std::uint32_t number, const FlowState& flow, std::int64_t ts_ns);
    void add_stack(FlowState& flow, std::uint32_t stack);
    void add_applications(FlowState& flow, const FrameApplication& application);
    void add_tcp(FlowState& flow, std::uint32_t number, const FrameRow& row);
    void count_flags(TcpState& tcp, std::uint32_t number, std::uint16_t flags);
    void add_sequence(TcpState& tcp, std::uint32_t number, const FrameRow& row);
    void add_payload(TcpState& tcp, std::uint32_t number, Range range);
    void limit_ranges(OlderRanges& list);
    void add_ack(TcpState& tcp, std::uint32_t number, const FrameRow& row);
    void add_handshake(TcpState& tcp, std::uint32_t number, const FrameRow& row);
    const TcpState* update_peer(TcpState& tcp, std::uint32_t number);
    std::uint64_t carried(std::uint32_t number, std::size_t counter) const;
    // Adds to a counter and records its carry.
    template <typename Counter>
    void count(Counter& counter, std::uint32_t number, std::size_t which, Counter added = 1) {
        counter = static_cast<Counter>(counter + added);
        if (counter < added) ++carries_[(std::uint64_t{number} << 8) | which];
    }

    const FlowKeys& keys_;
    Peers peers_;
    std::vector<std::uint32_t> number_of_key_;
    Pool<FlowState> flows_;
    Pool<TcpState> tcp_;
    FlowCounts counts_;
    Pool<OlderRanges> older_ranges_;
    std::uint64_t older_ranges_total_ = 0;
    std::uint64_t ranges_forgotten_ = 0;
    // Earliest and latest timestamp of flows whose timestamps went backwards.
    std::unordered_map<std::uint32_t, std::pair<std::int64_t, std::int64_t>> times_;
    std::unordered_map<std::uint32_t, std::uint64_t>
        untimed_;  // number of frames without a timestamp, for flows that have any
    std::unordered_map<std::uint64_t, std::uint64_t> carries_;  // by flow and counter
    std::unordered_map<std::uint32_t, std::int64_t> long_round_trips_;
};

}  // namespace acapella
