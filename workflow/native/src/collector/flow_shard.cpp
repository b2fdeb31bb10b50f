#include "collector/flow_shard.hpp"

#include <algorithm>

namespace acapella::collector {

FlowShard::FlowShard(Format format, const TableHash& hash, std::optional<std::uint64_t> series_ns)
    : format_(format), hash_(hash) {
    if (series_ns) series_.emplace(*series_ns);
}

FlowShard::Sought FlowShard::seek(const std::byte* bytes) const {
    const ReportKey key = key_of(format_, bytes);
    return {key, hash_.words(key.words())};
}

void FlowShard::take(std::span<const ReportAt> reports, bool full) {
    std::array<Sought, 2 * kAhead> sought;
    for (std::size_t n = 0; n < reports.size() + 2 * kAhead; ++n) {
        if (n >= 2 * kAhead) take_one(reports[n - 2 * kAhead], sought[n % sought.size()], full);
        if (n < reports.size()) {
            sought[n % sought.size()] = seek(reports[n].bytes);
            index_.prefetch(sought[n % sought.size()].hash);
        }
        if (n >= kAhead && n - kAhead < reports.size()) {
            const std::uint32_t row = index_.guess(sought[(n - kAhead) % sought.size()].hash);
            if (row != kNone) records_.prefetch(row, format_);
        }
    }
}

void FlowShard::take_one(const ReportAt& at, const Sought& sought, bool full) {
    Report report = report_of(format_, at.bytes);
    const std::uint32_t row =
        index_.find(sought.hash, [&](std::uint32_t found) { return records_.key(found) == sought.key; });
    if (row == kNone) {
        if (full) {
            ++counts_[Effect::refused];
            return;
        }
        return add(at, sought, report);
    }
    const FlowState& flow = records_.state(row);
    const bool listed = series_ && is_newer(flow, format_, report);
    if (listed) series_->before(row, time_of(flow, format_, report), flow, at.position);
    Effect effect{};
    records_.change(row, [&](FlowState& state) { effect = update(state, format_, report); });
    ++counts_[effect];
    if (listed) series_->after(row, flow, at.position);
}

void FlowShard::add(const ReportAt& at, const Sought& sought, Report& report) {
    FlowState flow;
    flow.number = kNone;
    begin(flow, report);
    const std::uint32_t row = records_.size();
    new_positions_.push_back(at.position);
    records_.add(sought.key, flow);
    index_.insert(sought.hash, row,
                  [&](std::uint32_t other) { return hash_.words(records_.key(other).words()); });
    if (series_) {
        series_->before(row, report.timestamp, flow, at.position);
        series_->after(row, flow, at.position);
    }
    ++counts_[Effect::newer];
}

void FlowShard::set_number(std::uint32_t row, std::uint32_t number) {
    records_.change(row, [number](FlowState& flow) { flow.number = number; });
}

void FlowShard::close_window(std::uint32_t row, std::uint64_t position) {
    if (series_) series_->close(row, records_.state(row), position);
}

std::size_t FlowShard::memory_bytes_a_flow() const {
    // Of the index at its fullest growth: four bytes a slot, and between 3/8 and 3/4 of the slots are taken.
    constexpr std::size_t kIndexBytes = 11;
    return RecordPool::record_bytes() + kIndexBytes + (series_ ? 2 * sizeof(Window) : 0);
}

}  // namespace acapella::collector
