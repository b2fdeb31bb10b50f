// What is listed over time: one row a flow and window of time in which reports of it came.
#pragma once

#include <cstdint>
#include <vector>

#include "collector/flow_state.hpp"

namespace acapella::collector {

struct SeriesRow {
    std::uint64_t position = 0;  // of the report that ended the window, among all reports
    std::uint32_t flow = 0;      // row in its shard; the flow's number when it is handed out
    std::uint32_t reports = 0;
    std::uint64_t window_ns = 0;  // start of the window; the report's time where every report is a row
    std::uint64_t span_ns = 0;    // what the bytes are spread over; 0: not known
    std::uint64_t last_ns = 0;    // of the window's last report
    std::uint64_t bytes = 0;
    std::uint64_t packets = 0;
    std::uint64_t acked_bytes = 0;
    std::uint64_t payload_bytes = 0;
    std::uint64_t retransmitted_bytes = 0;
    std::int64_t gap_bytes = 0;  // below 0 where more was filled than skipped
    std::uint64_t iat_ns = 0;
    std::uint32_t duplicate_acks = 0;
    std::uint32_t in_flight = 0;
    std::uint32_t most_in_flight = 0;
    std::uint32_t flags = 0;  // FlowState's: what is known; kSeq: a flight is
};

// A flow's open window: its counters when the window began.
struct Window {
    std::uint64_t start = 0;  // in windows; every report a row: time of the report before
    std::uint64_t last_ns = 0;
    std::uint64_t bytes = 0;
    std::uint64_t packets = 0;
    std::uint64_t acked_bytes = 0;
    std::uint64_t payload_bytes = 0;
    std::uint64_t retransmitted_bytes = 0;
    std::uint64_t gap_bytes = 0;
    std::uint32_t duplicate_acks = 0;
    std::uint32_t reports = 0;
    std::uint32_t in_flight = 0;
    std::uint32_t most_in_flight = 0;
    std::uint32_t knows_flight = 0;
};

// Windows of a shard's flows, by row.
class Series {
  public:
    // width_ns 0: every report is a row.
    explicit Series(std::uint64_t width_ns) : width_ns_(width_ns) {}

    // Before the report is taken: its time may end the window.
    void before(std::uint32_t row, std::uint64_t ts_ns, const FlowState& flow, std::uint64_t position);
    // After a report that is the newest.
    void after(std::uint32_t row, const FlowState& flow, std::uint64_t position);
    // The open window of a flow, at the end.
    void close(std::uint32_t row, const FlowState& flow, std::uint64_t position);

    std::vector<SeriesRow>& rows() { return rows_; }

  private:
    void emit(std::uint32_t row, const FlowState& flow, std::uint64_t position);

    std::uint64_t width_ns_;
    std::vector<Window> windows_;
    std::vector<SeriesRow> rows_;
};

}  // namespace acapella::collector
