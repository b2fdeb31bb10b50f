#include "collector/series.hpp"

#include <algorithm>

namespace acapella::collector {

void Series::emit(std::uint32_t row, const FlowState& flow, std::uint64_t position) {
    Window& window = windows_[row];
    SeriesRow out;
    out.position = position;
    out.flow = row;
    out.reports = window.reports;
    out.last_ns = window.last_ns;
    out.window_ns = width_ns_ == 0 ? window.last_ns : window.start * width_ns_;
    out.span_ns = width_ns_ == 0 ? window.last_ns - window.start : width_ns_;
    out.bytes = flow.bytes() - window.bytes;
    out.packets = flow.packets() - window.packets;
    out.acked_bytes = flow.acked_bytes - window.acked_bytes;
    out.payload_bytes = flow.payload_bytes - window.payload_bytes;
    out.retransmitted_bytes = flow.retransmitted_bytes - window.retransmitted_bytes;
    out.gap_bytes = static_cast<std::int64_t>(flow.gap_bytes - window.gap_bytes);
    out.duplicate_acks = flow.duplicate_acks - window.duplicate_acks;
    out.iat_ns = flow.iat_ns;
    out.in_flight = window.in_flight;
    out.most_in_flight = window.most_in_flight;
    out.flags = flow.flags & ~static_cast<std::uint32_t>(FlowState::kSeq);
    if (window.knows_flight != 0) out.flags |= FlowState::kSeq;
    rows_.push_back(out);

    window = {.last_ns = window.last_ns,
              .bytes = flow.bytes(),
              .packets = flow.packets(),
              .acked_bytes = flow.acked_bytes,
              .payload_bytes = flow.payload_bytes,
              .retransmitted_bytes = flow.retransmitted_bytes,
              .gap_bytes = flow.gap_bytes,
              .duplicate_acks = flow.duplicate_acks};
}

void Series::before(std::uint32_t row, std::uint64_t ts_ns, const FlowState& flow, std::uint64_t position) {
    if (row >= windows_.size()) {
        windows_.resize(row + 1);
        windows_[row].start = width_ns_ == 0 ? ts_ns : ts_ns / width_ns_;
        return;
    }
    if (width_ns_ == 0) {
        windows_[row].start = windows_[row].last_ns;
        return;
    }
    // A newer epoch may have an older time: its report stays in the window that is open.
    const std::uint64_t start = std::max(ts_ns / width_ns_, windows_[row].start);
    if (start != windows_[row].start) emit(row, flow, position);
    windows_[row].start = start;
}

void Series::after(std::uint32_t row, const FlowState& flow, std::uint64_t position) {
    Window& window = windows_[row];
    ++window.reports;
    window.last_ns = std::max(window.last_ns, flow.timestamp.get());
    if (flow.knows_flight()) {
        window.in_flight = flow.seq - flow.ack;
        window.most_in_flight = std::max(window.most_in_flight, window.in_flight);
        window.knows_flight = 1;
    }
    if (width_ns_ == 0) emit(row, flow, position);
}

void Series::close(std::uint32_t row, const FlowState& flow, std::uint64_t position) {
    if (windows_[row].reports > 0) emit(row, flow, position);
}

}  // namespace acapella::collector
