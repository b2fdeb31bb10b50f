// The time series: one row per flow and time window with reports, or with packets counted by a later report.
#pragma once

#include <cstdint>
#include <vector>

#include "collector/table/flow_state.hpp"
#include "collector/table/spread.hpp"

namespace acapella::collector {

struct SeriesRow {
    std::uint64_t position = 0;  // of the report that ended the window, among all reports
    std::uint32_t flow = 0;      // row in its shard; replaced by the flow's number in FlowTable
    std::uint32_t reports = 0;
    std::uint64_t window_ns = 0;  // start of the window; the report's time if every report is a row
    std::uint64_t windows = 1;    // number of windows in this row, which share its amounts equally
    std::uint64_t span_ns = 0;    // time over which the bytes were sent; 0: unknown
    std::uint64_t last_ns = 0;    // of the window's last report, or of the one that counted its packets
    std::uint64_t bytes = 0;
    std::uint64_t packets = 0;
    std::uint64_t acked_bytes = 0;
    std::uint64_t payload_bytes = 0;
    std::uint64_t retransmitted_bytes = 0;
    std::int64_t gap_bytes = 0;  // negative if more gaps were filled than opened
    std::uint64_t iat_ns = 0;
    std::uint32_t duplicate_acks = 0;
    std::uint32_t in_flight = 0;
    std::uint32_t max_in_flight = 0;
    std::uint32_t flags = 0;  // FlowState flags of known values; kSeq: bytes in flight are known
};

// The open window of a flow, which is read for every report.
struct alignas(32) Window {
    std::uint64_t start = 0;  // window number; if every report is a row: time of the previous report
    std::uint64_t last_ns = 0;
    std::uint32_t reports = 0;
    std::uint32_t in_flight = 0;
    std::uint32_t max_in_flight = 0;
    std::uint32_t knows_flight = 0;
};

// A flow's counters at the start of its open window, read when the window ends.
struct WindowBase {
    std::uint64_t bytes = 0;
    std::uint64_t packets = 0;
    std::uint64_t acked_bytes = 0;
    std::uint64_t payload_bytes = 0;
    std::uint64_t retransmitted_bytes = 0;
    std::uint64_t gap_bytes = 0;
    std::uint32_t duplicate_acks = 0;
};

// The windows of a shard's flows, by row.
class Series {
  public:
    // width_ns 0: every report is a row.
    Series(Format format, std::uint64_t width_ns) : format_(format), width_ns_(width_ns) {}

    // Prefetches a row.
    void prefetch(std::uint32_t row) const {
        if (row >= windows_.size()) return;
        __builtin_prefetch(&windows_[row]);
        if (!opens_window_) return;  // if the latest report ended a window, the next ones probably do as well
        const char* base = reinterpret_cast<const char*>(&bases_[row]);
        __builtin_prefetch(base);
        __builtin_prefetch(base + sizeof(WindowBase) - 1);
    }
    static constexpr std::size_t bytes_per_flow() { return sizeof(Window) + sizeof(WindowBase); }
    // Call before adding a report, whose time may end the window.
    void before(std::uint32_t row, std::uint64_t ts_ns, const FlowState& flow, std::uint64_t position);
    // Call after adding a report that is the newest of its flow.
    void after(std::uint32_t row, const Report& report, const FlowState& flow, std::uint64_t position);
    // Closes the open window of a flow; call at the end.
    void close(std::uint32_t row, const FlowState& flow, std::uint64_t position);

    std::vector<SeriesRow>& rows() { return rows_; }

  private:
    // Amounts that can be spread over time. Other amounts belong to the window of the report.
    struct Counts {
        std::uint64_t bytes, packets, payload_bytes;
    };

    void emit(std::uint32_t row, const FlowState& flow, std::uint64_t position);
    void spread(std::uint32_t row, const Report& report, const FlowState& flow, std::uint64_t position);
    void add_row(const SeriesRow& pattern, const Spread& spread, const Counts& added, std::uint64_t first,
                 std::uint64_t until);

    static constexpr std::size_t kNoRow = static_cast<std::size_t>(-1);

    Format format_;
    std::uint64_t width_ns_;
    std::vector<Window> windows_;
    std::vector<WindowBase> bases_;
    std::vector<SeriesRow> rows_;
    // State of the report being added:
    bool opens_window_ = false;    // the report opens another window of its flow
    std::size_t closed_ = kNoRow;  // the row of the previous window
};

}  // namespace acapella::collector
