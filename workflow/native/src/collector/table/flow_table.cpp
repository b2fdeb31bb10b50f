#include "collector/table/flow_table.hpp"

#include <algorithm>
#include <array>

namespace acapella::collector {
namespace {

// Calls visit(bytes, number in the round) for each of the reports [first, last) of a round.
template <typename Visit>
void for_each_report(std::span<const ReportRun> round, std::size_t stride, std::uint32_t first,
                     std::uint32_t last, const Visit& visit) {
    std::uint32_t start = 0;
    for (const ReportRun& run : round) {
        const std::uint32_t from = std::max(first, start);
        const std::uint32_t to = std::min(last, start + run.count);
        for (std::uint32_t i = from; i < to; ++i) visit(run.bytes + std::size_t{i - start} * stride, i);
        start += run.count;
    }
}

std::uint32_t count_of(std::span<const ReportRun> round) {
    std::uint32_t count = 0;
    for (const ReportRun& run : round) count += run.count;
    return count;
}

}  // namespace

FlowTable::FlowTable(const TableConfig& config, const TableHash& hash)
    : config_(config),
      hash_(hash),
      workers_(config.threads),
      sorted_(config.threads),
      full_(config.max_flows == 0) {
    for (unsigned i = 0; i < config.threads; ++i)
        shards_.push_back(std::make_unique<FlowShard>(config.format, hash, config.series_ns,
                                                      config.max_flows + config.max_round_reports));
    for (auto& of_worker : sorted_) of_worker.resize(config.threads);
}

void FlowTable::take_more(std::span<const ReportRun> round) {
    const std::uint32_t count = count_of(round);
    if (count == 0) return;
    for (const auto& shard : shards_) shard->start_round();
    if (shards_.size() == 1)
        add_single_threaded(round);
    else
        add_in_parallel(round, count);
    position_ += count;
    number_new_flows();
    gather_series();
}

void FlowTable::add_single_threaded(std::span<const ReportRun> round) {
    constexpr std::size_t kChunk = 1024;
    std::array<ReportRef, kChunk> chunk;
    std::size_t filled = 0;
    std::uint64_t position = position_;
    const std::size_t stride = bytes_of(config_.format);
    for (const ReportRun& run : round) {
        for (std::uint32_t i = 0; i < run.count; ++i) {
            chunk[filled++] = {run.bytes + i * stride, position++};
            if (filled < kChunk) continue;
            shards_[0]->take(chunk, full_);
            filled = 0;
        }
    }
    shards_[0]->take({chunk.data(), filled}, full_);
}

void FlowTable::add_in_parallel(std::span<const ReportRun> round, std::uint32_t count) {
    workers_.run([&](unsigned worker) { scatter(round, count, worker); });
    workers_.run([&](unsigned shard) {
        for (const auto& of_worker : sorted_) shards_[shard]->take(of_worker[shard], full_);
    });
}

void FlowTable::scatter(std::span<const ReportRun> round, std::uint32_t count, unsigned worker) {
    auto& sorted = sorted_[worker];
    for (auto& reports : sorted) reports.clear();
    const auto bound = [&](unsigned part) {
        return static_cast<std::uint32_t>(std::uint64_t{count} * part / config_.threads);
    };
    for_each_report(round, bytes_of(config_.format), bound(worker), bound(worker + 1),
                    [&](const std::byte* bytes, std::uint32_t location) {
                        const std::uint64_t hash = shards_[0]->hash_at(bytes);
                        // The hash index uses the lowest bits and some bits above the 32nd.
                        __extension__ using Wide = unsigned __int128;
                        const auto shard = static_cast<std::size_t>(
                            static_cast<Wide>(hash * 0x9e3779b97f4a7c15) * config_.threads >> 64);
                        sorted[shard].push_back({bytes, position_ + location});
                    });
}

// Numbers flows in the order of their first reports across all shards.
void FlowTable::number_new_flows() {
    if (shards_.size() == 1) {
        // The row equals the number.
        flows_ = shards_[0]->records().size();
        return;
    }
    struct NewFlow {
        std::uint64_t position;
        Location location;
    };
    std::vector<NewFlow> new_flows;
    for (std::uint32_t s = 0; s < shards_.size(); ++s) {
        std::uint32_t row = shards_[s]->first_new();
        for (const std::uint64_t position : shards_[s]->new_positions())
            new_flows.push_back({position, {s, row++}});
    }
    std::sort(new_flows.begin(), new_flows.end(),
              [](const NewFlow& a, const NewFlow& b) { return a.position < b.position; });
    for (const NewFlow& flow : new_flows) {
        locations_.push_back(flow.location);
        shards_[flow.location.shard]->set_number(flow.location.row, flows_++);
    }
}

std::uint32_t FlowTable::number_of(std::uint32_t shard, std::uint32_t row) const {
    return shards_.size() == 1 ? row : shards_[shard]->records().state(row).number.get();
}

void FlowTable::gather_series() {
    const std::size_t old_size = series_.size();
    for (std::uint32_t s = 0; s < shards_.size(); ++s) {
        std::vector<SeriesRow>* rows = shards_[s]->series_rows();
        if (rows == nullptr) return;
        for (SeriesRow& row : *rows) {
            row.flow = number_of(s, row.flow);
            series_.push_back(row);
        }
        rows->clear();
    }
    if (shards_.size() > 1)
        std::sort(series_.begin() + static_cast<std::ptrdiff_t>(old_size), series_.end(),
                  [](const SeriesRow& a, const SeriesRow& b) {
                      return std::pair(a.position, a.window_ns) < std::pair(b.position, b.window_ns);
                  });
}

void FlowTable::close_windows() {
    for (std::uint32_t number = 0; number < flows_; ++number) {
        const Location location = locations_.empty() ? Location{0, number} : locations_[number];
        shards_[location.shard]->close_window(location.row, position_ + number);
    }
    gather_series();
}

ReportCounts FlowTable::counts() const {
    ReportCounts counts;
    for (const auto& shard : shards_) counts.add(shard->counts());
    return counts;
}

std::uint32_t FlowTable::newest_epoch() const {
    std::uint32_t newest = 0;
    for (const auto& shard : shards_) newest = std::max(newest, shard->newest_epoch());
    return newest;
}

FlowSnapshot FlowTable::flow(std::uint32_t number) const {
    const Location location = locations_.empty() ? Location{0, number} : locations_[number];
    FlowSnapshot copy = shards_[location.shard]->records().copy(location.row);
    copy.state.number = number;
    return copy;
}

}  // namespace acapella::collector
