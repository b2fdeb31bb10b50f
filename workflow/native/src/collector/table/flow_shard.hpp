// The flows of one worker, assigned by hash: an open-addressed index over records. Records are compared by
// their complete keys, so hash collisions do not merge flows.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collector/table/record_pool.hpp"
#include "collector/table/series.hpp"
#include "containers/hash_index.hpp"
#include "containers/table_hash.hpp"

namespace acapella::collector {

// A report in memory, and its number among all reports of the run.
struct ReportRef {
    const std::byte* bytes;
    std::uint64_t position;
};

// Number of reports by effect.
class ReportCounts {
  public:
    std::uint64_t& operator[](Effect effect) { return counts_[static_cast<std::size_t>(effect)]; }
    std::uint64_t operator[](Effect effect) const { return counts_[static_cast<std::size_t>(effect)]; }
    void add(const ReportCounts& other) {
        for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    }

  private:
    std::array<std::uint64_t, 5> counts_{};
};

class FlowShard {
  public:
    // series_ns: width of the series windows; 0: one row per report; none: no series. max_flows: maximum
    // number of flows.
    FlowShard(Format format, const TableHash& hash, std::optional<std::uint64_t> series_ns,
              std::uint64_t max_flows);

    // The hash of a report's key.
    std::uint64_t hash_at(const std::byte* bytes) const;
    // Adds reports in the order of their positions.
    void take(std::span<const ReportRef> reports, bool full);

    const RecordPool& records() const { return records_; }
    // Returns the position of the first report of each flow added since start_round(), by row.
    std::span<const std::uint64_t> new_positions() const { return new_positions_; }
    std::uint32_t first_new() const {
        return records_.size() - static_cast<std::uint32_t>(new_positions_.size());
    }
    void start_round() { new_positions_.clear(); }
    void set_number(std::uint32_t row, std::uint32_t number);
    void close_window(std::uint32_t row, std::uint64_t position);

    std::vector<SeriesRow>* series_rows() { return series_ ? &series_->rows() : nullptr; }
    const ReportCounts& counts() const { return counts_; }
    std::uint32_t newest_epoch() const { return newest_epoch_; }
    static std::size_t memory_bytes_per_flow(bool with_series);

  private:
    // A lookup waits for memory twice, for its slot and for its record. This many lookups overlap.
    static constexpr std::size_t kPrefetchDistance = 8;
    struct Lookup {
        std::uint64_t hash;
        std::uint32_t row;  // the likely row: the first one whose slot has the hash's bits
    };

    template <Format kFormat>
    void take_all(std::span<const ReportRef> reports, bool full);
    template <Format kFormat>
    void process_report(const ReportRef& at, const Lookup& lookup, bool full);
    template <Format kFormat>
    void add(const ReportRef& at, std::uint64_t hash, Report& report);

    Format format_;
    TableHash hash_;
    HashIndex index_;
    RecordPool records_;
    std::optional<Series> series_;
    std::vector<std::uint64_t> new_positions_;
    ReportCounts counts_;
    std::uint32_t newest_epoch_ = 0;
};

}  // namespace acapella::collector
