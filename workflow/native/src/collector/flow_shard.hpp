// The flows whose hash falls to one worker: an open-addressed index over records that are compared by their
// whole key, so that a collision of hashes is none of flows.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collector/record_pool.hpp"
#include "collector/series.hpp"
#include "flow/slots.hpp"
#include "flow/table_hash.hpp"

namespace acapella::collector {

// A report in memory and its place among all reports of the run.
struct ReportAt {
    const std::byte* bytes;
    std::uint64_t position;
};

// What became of the reports that were read from a ring.
struct ReportCounts {
    std::uint64_t taken = 0;     // newer ones and first ones
    std::uint64_t older = 0;     // older than the flow's newest: only their counts were taken
    std::uint64_t repeated = 0;  // the newest one again
    std::uint64_t late = 0;      // of an epoch that the flow had closed: not taken
    std::uint64_t refused = 0;   // of a new flow, and the table is full

    void add(const ReportCounts& more) {
        taken += more.taken;
        older += more.older;
        repeated += more.repeated;
        late += more.late;
        refused += more.refused;
    }
};

class FlowShard {
  public:
    // series_ns: width of the windows of the series, 0 for a row a report; none without a series.
    FlowShard(Format format, const TableHash& hash, std::optional<std::uint64_t> series_ns);

    // In the order of their positions.
    void take(std::span<const ReportAt> reports, bool full);

    const RecordPool& records() const { return records_; }
    // Where each flow came first, by row, since the last call of start_round().
    std::span<const std::uint64_t> new_positions() const { return new_positions_; }
    std::uint32_t first_new() const {
        return records_.size() - static_cast<std::uint32_t>(new_positions_.size());
    }
    void start_round() { new_positions_.clear(); }
    void set_number(std::uint32_t row, std::uint32_t number);
    void close_window(std::uint32_t row, std::uint64_t position);

    std::vector<SeriesRow>* series_rows() { return series_ ? &series_->rows() : nullptr; }
    const ReportCounts& counts() const { return counts_; }
    std::size_t memory_bytes_a_flow() const;

  private:
    // So many look-ups are under way at once: the waits for memory overlap.
    static constexpr std::size_t kAhead = 16;
    struct Sought {
        ReportKey key;
        std::uint64_t hash;
    };

    void take_some(std::span<const ReportAt> reports, bool full);
    void take_one(const ReportAt& at, const Sought& sought, bool full);
    void add(const ReportAt& at, const Sought& sought, const Report& report);
    void count(Effect effect);

    Format format_;
    TableHash hash_;
    Slots index_;
    RecordPool records_;
    std::optional<Series> series_;
    std::vector<std::uint64_t> new_positions_;
    ReportCounts counts_;
};

}  // namespace acapella::collector
