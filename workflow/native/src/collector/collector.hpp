// Converts flow reports to flows. Receives reports like an RDMA NIC, or reads them from rings in memory, and
// adds them to the flow table.
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

// The configuration is invalid.
class ConfigError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

struct CollectorConfig {
    Format format = Format::tagged;
    std::vector<QueuePairConfig> queue_pairs;
    unsigned threads = 1;
    std::optional<std::uint64_t>
        series_ns;  // width of the series' windows; 0: one row per report; none: no series
    std::uint64_t memory_bytes = std::uint64_t{4} << 30;  // of the flow table
    bool check_icrc = true;
    // reports per round; series and limits are checked between rounds
    std::uint32_t round = std::uint32_t{1} << 14;
    std::size_t series_rows = std::size_t{1} << 17;  // number of rows at which series_ready() is true
    std::optional<std::uint64_t> hash_seed;          // for fuzzing (default: random)
};

// Numbers of frames and reports.
struct Counters {
    std::array<std::uint64_t, kVerdicts> verdicts{};
    std::uint64_t frames = 0;
    std::uint64_t lost = 0;     // missing packet sequence numbers, and reports missing in rings
    std::uint64_t overrun = 0;  // slots overwritten before they were read
    std::uint64_t dropped = 0;  // by the kernel
    std::uint64_t stored = 0;   // reports read from memory, including those found by polling
    ReportCounts reports;
    std::uint32_t flows = 0;
    std::uint32_t newest_epoch = 0;
};

class Collector {
  public:
    explicit Collector(const CollectorConfig& config);

    // Receives a frame. `wire_len` is its length before truncation by a capture.
    void receive(Bytes frame, std::uint32_t wire_len);
    // Counts a frame that is not Ethernet.
    void refuse_frame() { count(Verdict::not_roce); }
    // Adds the pending reports to the flow table and ends the round.
    void drain();
    // Adds reports in memory; `bytes` must remain valid during the call.
    void take_reports(const std::byte* bytes, std::uint64_t count);
    // Call after the last report: adds the pending reports and closes all windows of the series.
    void finish();

    // Removes or adds a queue pair. Its pending reports are added to the flow table first.
    void remove_queue_pair(std::uint32_t number);
    void add_queue_pair(const QueuePairConfig& config);
    QueuePair* queue_pair(std::uint32_t number);

    bool series_ready() const { return table_.series().size() >= config_.series_rows; }
    FlowTable& table() { return table_; }
    const FlowTable& table() const { return table_; }
    const CollectorConfig& config() const { return config_; }
    void add_dropped(std::uint64_t frames) { counters_.dropped += frames; }
    void add_ring_losses(std::uint64_t lost, std::uint64_t overrun);
    // Returns the counters of the last publish_counters(), which is called after every round. Thread-safe.
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
    std::vector<std::byte> waiting_;  // accepted reports, in order
    std::uint32_t max_waiting_;
    std::uint32_t waiting_reports_ = 0;
    std::uint32_t round_reports_ = 0;  // of this round, including pending ones
    Counters counters_;
    Counters published_;
    mutable std::mutex published_mutex_;
};

}  // namespace acapella::collector
