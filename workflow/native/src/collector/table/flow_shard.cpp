#include "collector/table/flow_shard.hpp"

#include <algorithm>

namespace acapella::collector {

FlowShard::FlowShard(Format format, const TableHash& hash, std::optional<std::uint64_t> series_ns,
                     std::uint64_t max_flows)
    : format_(format), hash_(hash), records_(max_flows) {
    if (series_ns) series_.emplace(format, *series_ns);
}

std::uint64_t FlowShard::hash_at(const std::byte* bytes) const {
    return format_ == Format::published ? hash_of<Format::published>(hash_, key_of<Format::published>(bytes))
                                        : hash_of<Format::tagged>(hash_, key_of<Format::tagged>(bytes));
}

void FlowShard::take(std::span<const ReportRef> reports, bool full) {
    if (format_ == Format::published)
        take_all<Format::published>(reports, full);
    else
        take_all<Format::tagged>(reports, full);
}

template <Format kFormat>
void FlowShard::take_all(std::span<const ReportRef> reports, bool full) {
    std::array<Lookup, 2 * kPrefetchDistance> lookup;
    for (std::size_t n = 0; n < reports.size() + 2 * kPrefetchDistance; ++n) {
        if (n >= 2 * kPrefetchDistance)
            process_report<kFormat>(reports[n - 2 * kPrefetchDistance], lookup[n % lookup.size()], full);
        if (n < reports.size()) {
            const std::uint64_t hash = hash_of<kFormat>(hash_, key_of<kFormat>(reports[n].bytes));
            lookup[n % lookup.size()].hash = hash;
            index_.prefetch(hash);
        }
        if (n >= kPrefetchDistance && n - kPrefetchDistance < reports.size()) {
            Lookup& next = lookup[(n - kPrefetchDistance) % lookup.size()];
            next.row = index_.find(next.hash, [](std::uint32_t) { return true; });
            if (next.row == kNone) continue;
            records_.prefetch<kFormat>(next.row);
            if (series_) series_->prefetch(next.row);
        }
    }
}

template <Format kFormat>
void FlowShard::process_report(const ReportRef& at, const Lookup& lookup, bool full) {
    const ReportKey::Words key = key_of<kFormat>(at.bytes);
    Report report = report_of<kFormat>(at.bytes);
    newest_epoch_ = std::max(newest_epoch_, report.epoch);
    std::uint32_t row = lookup.row;
    if (row == kNone || !records_.has_key<kFormat>(row, key))
        row = index_.find(lookup.hash,
                          [&](std::uint32_t found) { return records_.has_key<kFormat>(found, key); });
    if (row == kNone) {
        if (full) {
            ++counts_[Effect::refused];
            return;
        }
        return add<kFormat>(at, lookup.hash, report);
    }
    const FlowState& flow = records_.state(row);
    const bool in_series = series_ && is_newer(flow, kFormat, report);
    if (in_series) series_->before(row, time_of(flow, kFormat, report), flow, at.position);
    Effect effect{};
    records_.change(row, [&](FlowState& state) { effect = update(state, kFormat, report); });
    ++counts_[effect];
    if (in_series) series_->after(row, report, flow, at.position);
}

template <Format kFormat>
void FlowShard::add(const ReportRef& at, std::uint64_t hash, Report& report) {
    FlowState flow;
    flow.number = kNone;
    begin(flow, report);
    const std::uint32_t row = records_.size();
    new_positions_.push_back(at.position);
    records_.add(key_of<kFormat>(at.bytes), flow);
    index_.insert(hash, row,
                  [&](std::uint32_t other) { return hash_of<kFormat>(hash_, records_.key(other)); });
    if (series_) {
        series_->before(row, report.timestamp, flow, at.position);
        series_->after(row, report, flow, at.position);
    }
    ++counts_[Effect::newer];
}

void FlowShard::set_number(std::uint32_t row, std::uint32_t number) {
    records_.change(row, [number](FlowState& flow) { flow.number = number; });
}

void FlowShard::close_window(std::uint32_t row, std::uint64_t position) {
    if (series_) series_->close(row, records_.state(row), position);
}

std::size_t FlowShard::memory_bytes_per_flow(bool with_series) {
    // Maximum memory of the index per flow: four bytes per slot, and at least 3/8 of the slots are used.
    constexpr std::size_t kIndexBytes = 11;
    return RecordPool::record_bytes() + kIndexBytes + (with_series ? 2 * Series::bytes_per_flow() : 0);
}

}  // namespace acapella::collector
