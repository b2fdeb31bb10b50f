// Reports in, flows out: what an RDMA NIC does in front of the rings, the rings, and the flow table behind
// them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "collector/receive/queue_pair.hpp"
#include "collector/table/flow_table.hpp"
#include "input/capture_reader.hpp"

namespace acapella::collector {

// A configuration that contradicts itself.
class ConfigError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

struct CollectorConfig {
    Format format = Format::tagged;
    std::vector<QueuePairConfig> queue_pairs;
    unsigned threads = 1;
    std::optional<std::uint64_t>
        series_ns;  // width of the series' windows, 0: a row a report; none: no series
    std::uint64_t memory_bytes = std::uint64_t{4} << 30;  // of the flow table
    bool check_icrc = true;
    std::uint32_t round = std::uint32_t{1} << 14;  // reports between two looks at the series and the limits
    std::size_t series_rows = std::size_t{1}
                              << 17;         // so many rows are ready before they are to be taken away
    std::optional<std::uint64_t> hash_seed;  // for fuzzing; by default random
};

// Numbers of frames and reports, which another thread may look at.
struct Counters {
    std::array<std::uint64_t, kVerdicts> verdicts{};
    std::uint64_t frames = 0;
    std::uint64_t lost = 0;     // packet sequence numbers that were skipped
    std::uint64_t overrun = 0;  // slots that were written again before they were read
    std::uint64_t dropped = 0;  // by the kernel, before we saw them
    std::uint64_t stored = 0;   // reports handed over in memory, and found by polling
    ReportCounts reports;
    std::uint32_t flows = 0;
    std::uint32_t newest_epoch = 0;
};

class Collector {
  public:
    explicit Collector(const CollectorConfig& config);

    // A frame as it came from the wire; wire_len is its length before a capture cut it.
    void receive(Bytes frame, std::uint32_t wire_len);
    // A frame that no capture could give as Ethernet.
    void refuse_frame() { count(Verdict::not_roce); }
    // The reports that wait go to the flow table, and the round ends.
    void drain();
    // The reports in memory that was not written by receive(): `bytes` outlives the call.
    void take_reports(const std::byte* bytes, std::uint64_t count);
    // Nothing more comes: what waits is taken, and every window of the series ends.
    void finish();

    // Takes a queue pair out of use, or brings a new one in; what waits in its ring is taken first.
    void remove_queue_pair(std::uint32_t number);
    void add_queue_pair(const QueuePairConfig& config);
    QueuePair* queue_pair(std::uint32_t number);

    bool series_ready() const { return table_.series().size() >= config_.series_rows; }
    FlowTable& table() { return table_; }
    const FlowTable& table() const { return table_; }
    const CollectorConfig& config() const { return config_; }
    void add_dropped(std::uint64_t frames) { counters_.dropped += frames; }
    void add_ring_losses(std::uint64_t lost, std::uint64_t overrun);
    // As they were when the last round ended; from any thread.
    Counters counters() const;
    void publish_counters();

  private:
    void count(Verdict verdict) { ++counters_.verdicts[static_cast<std::size_t>(verdict)]; }
    void append(Bytes report);
    void flush();

    CollectorConfig config_;
    FlowTable table_;
    std::unordered_map<std::uint32_t, std::unique_ptr<QueuePair>> pairs_;
    QueuePair* last_pair_ = nullptr;
    std::vector<std::byte> waiting_;  // accepted reports, in their order
    std::uint32_t max_waiting_;
    std::uint32_t waiting_reports_ = 0;
    std::uint32_t round_reports_ = 0;  // of this round, those that wait included
    Counters counters_;
    Counters published_;
    mutable std::mutex published_mutex_;
};

}  // namespace acapella::collector
