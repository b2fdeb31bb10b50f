#include "collector/flow_shard.hpp"

#include <algorithm>

namespace acapella::collector {

FlowShard::FlowShard(Format format, const TableHash& hash, std::optional<std::uint64_t> series_ns)
    : format_(format), hash_(hash) {
    if (series_ns) series_.emplace(*series_ns);
}

void FlowShard::take(std::span<const ReportAt> reports, bool full) {
    for (std::size_t i = 0; i < reports.size(); i += kAhead)
        take_some(reports.subspan(i, std::min(kAhead, reports.size() - i)), full);
}

void FlowShard::take_some(std::span<const ReportAt> reports, bool full) {
    std::array<Sought, kAhead> sought;
    for (std::size_t i = 0; i < reports.size(); ++i) {
        sought[i].key = key_of(format_, reports[i].bytes);
        sought[i].hash = hash_.words(sought[i].key.words());
        index_.prefetch(sought[i].hash);
    }
    for (std::size_t i = 0; i < reports.size(); ++i) {
        const std::uint32_t row = index_.guess(sought[i].hash);
        if (row != kNone) records_.prefetch(row);
    }
    for (std::size_t i = 0; i < reports.size(); ++i) take_one(reports[i], sought[i], full);
}

void FlowShard::take_one(const ReportAt& at, const Sought& sought, bool full) {
    const Report report = report_of(format_, at.bytes);
    const std::uint32_t row =
        index_.find(sought.hash, [&](std::uint32_t found) { return records_.key(found) == sought.key; });
    if (row == kNone) {
        if (full) {
            ++counts_.refused;
            return;
        }
        return add(at, sought, report);
    }
    FlowState flow = records_.state(row);
    const bool newer = is_newer(flow, format_, report);
    if (series_ && newer) series_->before(row, time_of(flow, format_, report), flow, at.position);
    count(update(flow, format_, report));
    if (series_ && newer) series_->after(row, flow, at.position);
    records_.store(row, flow);
}

void FlowShard::add(const ReportAt& at, const Sought& sought, const Report& report) {
    FlowState flow;
    flow.number = kNone;
    begin(flow, format_, report);
    const std::uint32_t row = records_.size();
    new_positions_.push_back(at.position);
    records_.add(sought.key, flow);
    index_.insert(sought.hash, row,
                  [&](std::uint32_t other) { return hash_.words(records_.key(other).words()); });
    if (series_) {
        series_->before(row, report.timestamp, flow, at.position);
        series_->after(row, flow, at.position);
    }
    ++counts_.taken;
}

void FlowShard::count(Effect effect) {
    switch (effect) {
        case Effect::newer:
            ++counts_.taken;
            return;
        case Effect::older:
            ++counts_.older;
            return;
        case Effect::repeated:
            ++counts_.repeated;
            return;
        case Effect::late:
            ++counts_.late;
            return;
    }
}

void FlowShard::set_number(std::uint32_t row, std::uint32_t number) {
    FlowState flow = records_.state(row);
    flow.number = number;
    records_.store(row, flow);
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
