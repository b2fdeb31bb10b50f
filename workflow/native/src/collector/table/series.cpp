#include "collector/table/series.hpp"

#include <algorithm>

namespace acapella::collector {

void Series::emit(std::uint32_t row, const FlowState& flow, std::uint64_t position) {
    Window& window = windows_[row];
    WindowBase& base = bases_[row];
    SeriesRow out;
    out.position = position;
    out.flow = row;
    out.reports = window.reports;
    out.last_ns = window.last_ns;
    out.window_ns = window.start * width_ns_;
    out.span_ns = width_ns_;
    if (width_ns_ == 0) {  // a newer epoch may have an older time
        const std::uint64_t ts_ns = flow.timestamp;
        out.last_ns = out.window_ns = ts_ns;
        out.span_ns = ts_ns > window.start ? ts_ns - window.start : 0;
    }
    out.bytes = flow.bytes() - base.bytes;
    out.packets = flow.packets() - base.packets;
    out.acked_bytes = flow.acked_bytes - base.acked_bytes;
    out.payload_bytes = flow.payload_bytes - base.payload_bytes;
    out.retransmitted_bytes = flow.retransmitted_bytes - base.retransmitted_bytes;
    out.gap_bytes = static_cast<std::int64_t>(flow.gap_bytes - base.gap_bytes);
    out.duplicate_acks = flow.duplicate_acks - base.duplicate_acks;
    out.iat_ns = flow.iat_ns;
    out.in_flight = window.in_flight;
    out.max_in_flight = window.max_in_flight;
    out.flags = flow.flags & ~static_cast<std::uint32_t>(FlowState::kSeq);
    if (window.knows_flight != 0) out.flags |= FlowState::kSeq;
    rows_.push_back(out);

    window = {.last_ns = window.last_ns};
    base = {.bytes = flow.bytes(),
            .packets = flow.packets(),
            .acked_bytes = flow.acked_bytes,
            .payload_bytes = flow.payload_bytes,
            .retransmitted_bytes = flow.retransmitted_bytes,
            .gap_bytes = flow.gap_bytes,
            .duplicate_acks = flow.duplicate_acks};
}

void Series::before(std::uint32_t row, std::uint64_t ts_ns, const FlowState& flow, std::uint64_t position) {
    opens_window_ = width_ns_ != 0;
    closed_ = kNoRow;
    if (row >= windows_.size()) {
        windows_.resize(row + 1);
        bases_.resize(row + 1);
        windows_[row].start = width_ns_ == 0 ? ts_ns : ts_ns / width_ns_;
        return;
    }
    if (width_ns_ == 0) {
        windows_[row].start = windows_[row].last_ns;
        return;
    }
    // A newer epoch may have an older time. Its report remains in the open window.
    opens_window_ = ts_ns >= width_ns_ && ts_ns - width_ns_ >= windows_[row].start * width_ns_;
    if (!opens_window_) return;
    const std::uint64_t start = ts_ns / width_ns_;
    closed_ = rows_.size();
    emit(row, flow, position);
    windows_[row].start = start;
}

// If a report opens a window, divides the amounts that it adds between this window and the windows before it.
void Series::spread(std::uint32_t row, const Report& report, const FlowState& flow, std::uint64_t position) {
    const Window& window = windows_[row];
    WindowBase& base = bases_[row];
    const Counts added{flow.bytes() - base.bytes, flow.packets() - base.packets,
                       flow.payload_bytes - base.payload_bytes};
    const bool begins = closed_ == kNoRow;
    const std::uint64_t packet_ns = (report.has & Report::kLast) != 0 ? report.last : report.timestamp;
    const std::uint64_t start_ns =
        (report.has & Report::kStart) != 0 ? std::min(report.start, packet_ns) : packet_ns;
    const Spread spread(begins ? start_ns : window.last_ns, report, added.packets, width_ns_);
    std::uint64_t at = spread.first();
    if (!begins) {
        SeriesRow& closed = rows_[closed_];
        at = closed.window_ns / width_ns_ + 1;
        closed.bytes += spread.before(at, added.bytes);
        closed.packets += spread.before(at, added.packets);
        closed.payload_bytes += spread.before(at, added.payload_bytes);
        closed.flags |= flow.flags & std::uint32_t{FlowState::kSlot};
    }
    SeriesRow pattern;
    pattern.position = position;
    pattern.flow = row;
    pattern.last_ns = report.timestamp;
    pattern.flags = flow.flags & ~std::uint32_t{FlowState::kSeq | FlowState::kIat};
    const auto add_until = [&](std::uint64_t until) {
        until = std::min(until, window.start);
        if (at < until) add_row(pattern, spread, added, at, until);
        at = std::max(at, until);
    };
    at = std::max(at, spread.first());
    add_until(spread.first() + 1);
    add_until(spread.even());
    add_until(spread.even() + 1);
    at = std::max(at, spread.last());
    add_until(spread.last() + 1);
    base.bytes += spread.before(window.start, added.bytes);
    base.packets += spread.before(window.start, added.packets);
    base.payload_bytes += spread.before(window.start, added.payload_bytes);
}

// Adds one row for the windows without reports from `first` up to, but not including, `until`, unless their
// share is zero.
void Series::add_row(const SeriesRow& pattern, const Spread& spread, const Counts& added, std::uint64_t first,
                     std::uint64_t until) {
    const auto share = [&](std::uint64_t amount) {
        return spread.before(until, amount) - spread.before(first, amount);
    };
    SeriesRow out = pattern;
    out.window_ns = first * width_ns_;
    out.windows = until - first;
    out.span_ns = out.windows * width_ns_;
    out.bytes = share(added.bytes);
    out.packets = share(added.packets);
    out.payload_bytes = share(added.payload_bytes);
    if ((out.bytes | out.packets | out.payload_bytes) != 0) rows_.push_back(out);
}

void Series::after(std::uint32_t row, const Report& report, const FlowState& flow, std::uint64_t position) {
    if (opens_window_ && format_ == Format::tagged) spread(row, report, flow, position);
    Window& window = windows_[row];
    ++window.reports;
    window.last_ns = std::max(window.last_ns, flow.timestamp.get());
    if (flow.knows_flight()) {
        window.in_flight = flow.seq - flow.ack;
        window.max_in_flight = std::max(window.max_in_flight, window.in_flight);
        window.knows_flight = 1;
    }
    if (width_ns_ == 0) emit(row, flow, position);
}

void Series::close(std::uint32_t row, const FlowState& flow, std::uint64_t position) {
    if (windows_[row].reports > 0) emit(row, flow, position);
}

}  // namespace acapella::collector
