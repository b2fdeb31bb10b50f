// The flow table that the workers fill together: shards by hash, a worker each.
//
// A round is a run of reports in the order in which they stand in the rings. Each worker reads a segment of
// it and sorts the reports by shard; then each worker takes what fell to its shard, segment after segment, so
// that a flow's reports are taken in their order. Nothing in the result depends on the number of workers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collector/table/flow_shard.hpp"
#include "collector/table/workers.hpp"

namespace acapella::collector {

// Reports that stand one behind the other.
struct ReportRun {
    const std::byte* bytes;
    std::uint32_t count;
};

struct TableConfig {
    Format format = Format::tagged;
    unsigned threads = 1;
    std::uint64_t max_flows = RecordPool::kMaxRecords;          // is looked at between rounds
    std::uint64_t max_round_reports = RecordPool::kMaxRecords;  // reports between two looks
    std::optional<std::uint64_t> series_ns;                     // none: no series
};

class FlowTable {
  public:
    explicit FlowTable(const TableConfig& config, const TableHash& hash = TableHash());

    // A round: whether the table is full is looked at when it starts.
    void take(std::span<const ReportRun> round) {
        start_round();
        take_more(round);
    }
    void start_round() { full_ = flows_ >= config_.max_flows; }
    void take_more(std::span<const ReportRun> reports);
    // The windows that are open, in the order of the flows. Nothing may be taken afterwards.
    void close_windows();

    ReportCounts counts() const;
    std::uint32_t newest_epoch() const;  // of any report
    std::uint64_t reports() const { return position_; }
    std::size_t memory_bytes_per_flow() const {
        return FlowShard::memory_bytes_per_flow(config_.series_ns.has_value());
    }

    // In order of the first report; only between rounds.
    std::uint32_t flows() const { return flows_; }
    FlowSnapshot flow(std::uint32_t number) const;

    // The flows as they are, from any thread, while others take reports: any number may be half a round
    // behind.
    template <typename Visit>
    void visit(const Visit& see) const {
        for (const auto& shard : shards_) {
            const std::uint32_t size = shard->records().size();
            for (std::uint32_t row = 0; row < size; ++row) {
                FlowSnapshot flow = shard->records().copy(row);
                if (shards_.size() == 1) flow.state.number = row;
                see(flow);
            }
        }
    }

    // Rows of the series that are ready, in the order of the reports that ended them; the caller takes them
    // away.
    std::vector<SeriesRow>& series() { return series_; }
    const std::vector<SeriesRow>& series() const { return series_; }

  private:
    struct Location {
        std::uint32_t shard;
        std::uint32_t row;
    };

    void take_alone(std::span<const ReportRun> round);
    void take_together(std::span<const ReportRun> round, std::uint32_t count);
    void scatter(std::span<const ReportRun> round, std::uint32_t count, unsigned worker);
    void number_new_flows();
    void gather_series();
    std::uint32_t number_of(std::uint32_t shard, std::uint32_t row) const;

    TableConfig config_;
    TableHash hash_;
    std::vector<std::unique_ptr<FlowShard>> shards_;
    Workers workers_;
    std::vector<std::vector<std::vector<ReportRef>>> sorted_;  // by worker and shard
    std::vector<Location> locations_;                          // by number; empty with one shard
    std::vector<SeriesRow> series_;
    std::uint32_t flows_ = 0;
    bool full_;
    std::uint64_t position_ = 0;
};

}  // namespace acapella::collector
