#include "collector/collector.hpp"

#include <algorithm>
#include <cstring>

namespace acapella::collector {
namespace {

CollectorConfig checked(const CollectorConfig& config) {
    if (config.threads < 1 || config.threads > 256) throw ConfigError("threads: 1 to 256");
    if (config.round < 1) throw ConfigError("round: at least 1 report");
    return config;
}

void check(const QueuePairConfig& pair) {
    const std::string name = "queue pair " + std::to_string(pair.number);
    if (pair.number == 0 || pair.number >= SequenceWindow::kModulus)
        throw ConfigError(name + ": the number must be 1 to 2^24 - 1");
    if (pair.slots == 0) throw ConfigError(name + ": the ring must have at least 1 slot");
    if (pair.initial_psn != QueuePairConfig::kFirstSeen && pair.initial_psn >= SequenceWindow::kModulus)
        throw ConfigError(name + ": packet sequence numbers are below 2^24");
}

TableConfig table_config(const CollectorConfig& config) {
    return {.format = config.format,
            .threads = config.threads,
            .max_flows = config.memory_bytes / FlowShard::memory_bytes_per_flow(config.series_ns.has_value()),
            .max_round_reports = config.round,
            .series_ns = config.series_ns};
}

// A single thread processes reports while they are in its cache; several threads process a whole round.
std::uint32_t max_waiting(const CollectorConfig& config) {
    constexpr std::uint32_t kInCache = 2048;
    return config.threads == 1 ? std::min(kInCache, config.round) : config.round;
}

}  // namespace

Collector::Collector(const CollectorConfig& config)
    : config_(checked(config)),
      table_(table_config(config), config.hash_seed ? TableHash(*config.hash_seed) : TableHash()),
      waiting_(max_waiting(config) * bytes_of(config.format)),
      max_waiting_(max_waiting(config)) {
    for (const QueuePairConfig& pair : config.queue_pairs) add_queue_pair(pair);
}

void Collector::add_queue_pair(const QueuePairConfig& config) {
    check(config);
    remove_queue_pair(config.number);
    pairs_[config.number] = std::make_unique<QueuePair>(config, config_.format);
}

void Collector::remove_queue_pair(std::uint32_t number) {
    const auto found = pairs_.find(number);
    if (found == pairs_.end()) return;
    drain();
    counters_.lost += found->second->lost();
    last_pair_ = nullptr;
    pairs_.erase(found);
}

QueuePair* Collector::queue_pair(std::uint32_t number) {
    if (last_pair_ != nullptr && last_pair_->config().number == number) return last_pair_;
    const auto found = pairs_.find(number);
    if (found == pairs_.end()) return nullptr;
    return last_pair_ = found->second.get();
}

void Collector::receive(Bytes frame, std::uint32_t wire_len) {
    ++counters_.frames;
    WriteRequest request;
    if (const Verdict verdict = parse(frame, wire_len, config_.check_icrc, request);
        verdict != Verdict::accepted)
        return count(verdict);
    QueuePair* pair = queue_pair(request.queue_pair);
    if (pair == nullptr) return count(Verdict::bad_qp);
    const Verdict verdict = pair->check(request);
    count(verdict);
    if (verdict == Verdict::accepted) append(request.payload);
}

void Collector::append(Bytes report) {
    std::memcpy(waiting_.data() + waiting_reports_ * report.size(), report.data(), report.size());
    ++waiting_reports_;
    ++round_reports_;
    if (round_reports_ >= config_.round)
        drain();
    else if (waiting_reports_ == max_waiting_)
        flush();
}

void Collector::flush() {
    const ReportRun run{waiting_.data(), waiting_reports_};
    table_.take_more({&run, 1});
    waiting_reports_ = 0;
}

void Collector::drain() {
    flush();
    table_.start_round();
    round_reports_ = 0;
    publish_counters();
}

void Collector::take_reports(const std::byte* bytes, std::uint64_t count) {
    drain();
    const std::size_t stride = bytes_of(config_.format);
    counters_.stored += count;
    while (count > 0) {
        const auto round_size = static_cast<std::uint32_t>(std::min<std::uint64_t>(count, config_.round));
        std::vector<ReportRun> runs;
        for (std::uint32_t i = 0; i < round_size; ++i) {
            const std::byte* at = bytes + i * stride;
            if (!is_report(config_.format, at))
                this->count(Verdict::bad_version);
            else if (!runs.empty() && runs.back().bytes + runs.back().count * stride == at)
                ++runs.back().count;
            else
                runs.push_back({at, 1});
        }
        table_.take(runs);
        bytes += round_size * stride;
        count -= round_size;
    }
    publish_counters();
}

void Collector::finish() {
    drain();
    table_.close_windows();
    publish_counters();
}

void Collector::add_ring_losses(std::uint64_t lost, std::uint64_t overrun) {
    counters_.lost += lost;
    counters_.overrun += overrun;
}

void Collector::publish_counters() {
    Counters snapshot = counters_;
    for (const auto& [number, pair] : pairs_) snapshot.lost += pair->lost();
    snapshot.reports = table_.counts();
    snapshot.flows = table_.flows();
    snapshot.newest_epoch = table_.newest_epoch();
    const std::lock_guard lock(published_mutex_);
    published_ = snapshot;
}

Counters Collector::counters() const {
    const std::lock_guard lock(published_mutex_);
    return published_;
}

}  // namespace acapella::collector
