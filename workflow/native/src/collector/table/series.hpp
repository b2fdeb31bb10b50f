// What is listed over time: one row a flow and window of time in which reports of it came, or in which
// packets were that a later report told of.
#pragma once

#include <cstdint>
#include <vector>

#include "collector/table/flow_state.hpp"
#include "collector/table/spread.hpp"

namespace acapella::collector {

struct SeriesRow {
    std::uint64_t position = 0;  // of the report that ended the window, among all reports
    std::uint32_t flow = 0;      // row in its shard; the flow's number when it is handed out
    std::uint32_t reports = 0;
    std::uint64_t window_ns = 0;  // start of the window; the report's time where every report is a row
    std::uint64_t windows = 1;    // so many have this row together, each the same share of it
    std::uint64_t span_ns = 0;    // what the bytes are spread over; 0: not known
    std::uint64_t last_ns = 0;    // of the window's last report, or of the one that told of it
    std::uint64_t bytes = 0;
    std::uint64_t packets = 0;
    std::uint64_t acked_bytes = 0;
    std::uint64_t payload_bytes = 0;
    std::uint64_t retransmitted_bytes = 0;
    std::int64_t gap_bytes = 0;  // below 0 where more was filled than skipped
    std::uint64_t iat_ns = 0;
    std::uint32_t duplicate_acks = 0;
    std::uint32_t in_flight = 0;
    std::uint32_t max_in_flight = 0;
    std::uint32_t flags = 0;  // FlowState's: what is known; kSeq: a flight is
};

// A flow's open window: what every report looks at.
struct alignas(32) Window {
    std::uint64_t start = 0;  // in windows; every report a row: time of the report before
    std::uint64_t last_ns = 0;
    std::uint32_t reports = 0;
    std::uint32_t in_flight = 0;
    std::uint32_t max_in_flight = 0;
    std::uint32_t knows_flight = 0;
};

// A flow's counters when its open window began, which is what came before it: looked at when a window ends.
struct WindowBase {
    std::uint64_t bytes = 0;
    std::uint64_t packets = 0;
    std::uint64_t acked_bytes = 0;
    std::uint64_t payload_bytes = 0;
    std::uint64_t retransmitted_bytes = 0;
    std::uint64_t gap_bytes = 0;
    std::uint32_t duplicate_acks = 0;
};

// Windows of a shard's flows, by row.
class Series {
  public:
    // width_ns 0: every report is a row.
    Series(Format format, std::uint64_t width_ns) : format_(format), width_ns_(width_ns) {}

    // Into the caches.
    void prefetch(std::uint32_t row) const {
        if (row >= windows_.size()) return;
        __builtin_prefetch(&windows_[row]);
        if (!opens_window_) return;  // if the latest report ended a window, the next ones probably do, too
        const char* base = reinterpret_cast<const char*>(&bases_[row]);
        __builtin_prefetch(base);
        __builtin_prefetch(base + sizeof(WindowBase) - 1);
    }
    static constexpr std::size_t bytes_per_flow() { return sizeof(Window) + sizeof(WindowBase); }
    // Before the report is taken: its time may end the window.
    void before(std::uint32_t row, std::uint64_t ts_ns, const FlowState& flow, std::uint64_t position);
    // After a report that is the newest.
    void after(std::uint32_t row, const Report& report, const FlowState& flow, std::uint64_t position);
    // The open window of a flow, at the end.
    void close(std::uint32_t row, const FlowState& flow, std::uint64_t position);

    std::vector<SeriesRow>& rows() { return rows_; }

  private:
    // What can be told of when it came; the rest is of the window of the report.
    struct Counts {
        std::uint64_t bytes, packets, payload_bytes;
    };

    void emit(std::uint32_t row, const FlowState& flow, std::uint64_t position);
    void spread(std::uint32_t row, const Report& report, const FlowState& flow, std::uint64_t position);
    void add_row(const SeriesRow& like, const Spread& spread, const Counts& added, std::uint64_t first,
                 std::uint64_t until);

    static constexpr std::size_t kNoRow = static_cast<std::size_t>(-1);

    Format format_;
    std::uint64_t width_ns_;
    std::vector<Window> windows_;
    std::vector<WindowBase> bases_;
    std::vector<SeriesRow> rows_;
    // Of the report that is being taken:
    bool opens_window_ = false;    // it opens another window of its flow
    std::size_t closed_ = kNoRow;  // the row of the one before
};

}  // namespace acapella::collector
