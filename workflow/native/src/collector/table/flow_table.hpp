// The flow table, which several workers fill. Each worker has a shard of the flows, assigned by hash.
//
// A round is a sequence of reports in ring order. First, each worker reads a segment of the round and sorts
// its reports by shard. Then each worker adds the reports of its shard, segment by segment, so that the
// reports of a flow are added in order. The result does not depend on the number of workers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collector/table/flow_shard.hpp"
#include "collector/table/workers.hpp"

namespace acapella::collector {

// Contiguous reports.
struct ReportRun {
    const std::byte* bytes;
    std::uint32_t count;
};

struct TableConfig {
    Format format = Format::tagged;
    unsigned threads = 1;
    std::uint64_t max_flows = RecordPool::kMaxRecords;          // checked between rounds
    std::uint64_t max_round_reports = RecordPool::kMaxRecords;  // maximum reports per round
    std::optional<std::uint64_t> series_ns;                     // none: no series
};

class FlowTable {
  public:
    explicit FlowTable(const TableConfig& config, const TableHash& hash = TableHash());

    // Adds a round of reports. New flows are refused if the table is full at the start of the round.
    void take(std::span<const ReportRun> round) {
        start_round();
        take_more(round);
    }
    void start_round() { full_ = flows_ >= config_.max_flows; }
    void take_more(std::span<const ReportRun> reports);
    // Closes all open windows, in the order of the flows. No reports may be added afterwards.
    void close_windows();

    ReportCounts counts() const;
    std::uint32_t newest_epoch() const;  // of any report
    std::uint64_t reports() const { return position_; }
    std::size_t memory_bytes_per_flow() const {
        return FlowShard::memory_bytes_per_flow(config_.series_ns.has_value());
    }

    // Flows are numbered by their first report. Call only between rounds.
    std::uint32_t flows() const { return flows_; }
    FlowSnapshot flow(std::uint32_t number) const;

    // Visits the current flows. May be called from any thread while reports are added. Values may lag by up
    // to one round.
    template <typename Visit>
    void visit(const Visit& visitor) const {
        for (const auto& shard : shards_) {
            const std::uint32_t size = shard->records().size();
            for (std::uint32_t row = 0; row < size; ++row) {
                FlowSnapshot flow = shard->records().copy(row);
                if (shards_.size() == 1) flow.state.number = row;
                visitor(flow);
            }
        }
    }

    // Completed rows of the series, in the order of the reports that completed them. The caller removes the
    // rows.
    std::vector<SeriesRow>& series() { return series_; }
    const std::vector<SeriesRow>& series() const { return series_; }

  private:
    struct Location {
        std::uint32_t shard;
        std::uint32_t row;
    };

    void add_single_threaded(std::span<const ReportRun> round);
    void add_in_parallel(std::span<const ReportRun> round, std::uint32_t count);
    void scatter(std::span<const ReportRun> round, std::uint32_t count, unsigned worker);
    void number_new_flows();
    void gather_series();
    std::uint32_t number_of(std::uint32_t shard, std::uint32_t row) const;

    TableConfig config_;
    TableHash hash_;
    std::vector<std::unique_ptr<FlowShard>> shards_;
    Workers workers_;
    std::vector<std::vector<std::vector<ReportRef>>> sorted_;  // by worker and shard
    std::vector<Location> locations_;                          // by flow number; empty with one shard
    std::vector<SeriesRow> series_;
    std::uint32_t flows_ = 0;
    bool full_;
    std::uint64_t position_ = 0;
};

}  // namespace acapella::collector
