// Sorts a trial by time. Trials are usually sorted except for a few packets, or consist of a few sorted
// files.
#include <algorithm>
#include <memory>
#include <queue>

#include "kappa/trial/trial.hpp"

namespace acapella::kappa {
namespace {

struct Packet {
    std::int64_t ts_ns;
    Identity identity;
};

// Merges adjacent ascending runs until one is left. The sort is stable and faster with fewer runs.
template <typename Value, typename Earlier>
void sort_runs(std::vector<Value>& values, const Earlier& earlier) {
    std::vector<std::size_t> starts{0};
    for (std::size_t i = 1; i < values.size(); ++i)
        if (earlier(values[i], values[i - 1])) starts.push_back(i);
    std::vector<Value> merged(starts.size() > 1 ? values.size() : 0);
    while (starts.size() > 1) {
        std::vector<std::size_t> longer;
        for (std::size_t run = 0; run < starts.size(); run += 2) {
            const auto at = [&](std::size_t r) {
                return values.begin() +
                       static_cast<std::ptrdiff_t>(r < starts.size() ? starts[r] : values.size());
            };
            longer.push_back(starts[run]);
            std::merge(at(run), at(run + 1), at(run + 1), at(run + 2),
                       merged.begin() + static_cast<std::ptrdiff_t>(starts[run]), earlier);
        }
        values.swap(merged);
        starts.swap(longer);
    }
}

struct SortKey {
    std::int64_t ts_ns;
    std::uint32_t packet;
};

// Memory per packet for sorting in memory: the order, its merged copy, and identities.
constexpr std::uint64_t kSortBytes = 2 * sizeof(SortKey) + sizeof(Identity);

void sort_in_memory(Trial& trial) {
    const std::span<std::int64_t> timestamps = trial.timestamps.span();
    const std::span<Identity> identities = trial.identities.span();
    std::vector<SortKey> order(timestamps.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = {timestamps[i], static_cast<std::uint32_t>(i)};
    sort_runs(order, [](const SortKey& a, const SortKey& b) { return a.ts_ns < b.ts_ns; });
    std::vector<Identity> moved(identities.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
        timestamps[i] = order[i].ts_ns;
        moved[i] = identities[order[i].packet];
    }
    std::copy(moved.begin(), moved.end(), identities.begin());
}

// A sorted part of a column of packets.
class Run {
  public:
    Run(const SpillColumn<Packet>& packets, std::size_t first, std::size_t last, std::size_t buffered)
        : packets_(&packets), next_(first), last_(last), buffer_(std::min(buffered, last - first)) {
        fill();
    }

    [[nodiscard]] bool ended() const { return at_ == size_; }
    [[nodiscard]] const Packet& head() const { return buffer_[at_]; }
    void advance() {
        if (++at_ == size_) fill();
    }

  private:
    void fill() {
        size_ = std::min(buffer_.size(), last_ - next_);
        packets_->read(next_, std::span(buffer_).first(size_));
        next_ += size_;
        at_ = 0;
    }

    const SpillColumn<Packet>* packets_;
    std::size_t next_;
    std::size_t last_;
    std::vector<Packet> buffer_;
    std::size_t at_ = 0;
    std::size_t size_ = 0;
};

// Writes sorted parts of at most `longest` packets to `packets`. Returns the start of each part, and the end.
std::vector<std::size_t> write_runs(const Trial& trial, std::size_t longest, SpillColumn<Packet>& packets) {
    std::vector<std::size_t> starts{0};
    std::vector<Identity> identities(std::min<std::size_t>(longest, trial.size()));
    std::vector<std::int64_t> timestamps(identities.size());
    for (std::size_t first = 0; first < trial.size(); first += longest) {
        const std::size_t count = std::min<std::size_t>(longest, trial.size() - first);
        trial.identities.read(first, std::span(identities).first(count));
        trial.timestamps.read(first, std::span(timestamps).first(count));
        std::vector<Packet> part(count);
        for (std::size_t i = 0; i < count; ++i) part[i] = {timestamps[i], identities[i]};
        sort_runs(part, [](const Packet& a, const Packet& b) { return a.ts_ns < b.ts_ns; });
        for (const Packet& packet : part) packets.push(packet);
        starts.push_back(packets.size());
    }
    return starts;
}

void merge_runs(const SpillColumn<Packet>& packets, const std::vector<std::size_t>& starts,
                std::size_t buffered, Trial& sorted) {
    std::vector<Run> runs;
    for (std::size_t i = 0; i + 1 < starts.size(); ++i)
        runs.emplace_back(packets, starts[i], starts[i + 1], buffered);
    const auto later = [&runs](std::size_t a, std::size_t b) {
        const std::int64_t ts_a = runs[a].head().ts_ns;
        const std::int64_t ts_b = runs[b].head().ts_ns;
        return ts_a != ts_b ? ts_a > ts_b : a > b;
    };
    std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(later)> first(later);
    for (std::size_t i = 0; i < runs.size(); ++i) first.push(i);
    while (!first.empty()) {
        const std::size_t run = first.top();
        first.pop();
        sorted.timestamps.push(runs[run].head().ts_ns);
        sorted.identities.push(runs[run].head().identity);
        runs[run].advance();
        if (!runs[run].ended()) first.push(run);
    }
}

void sort_through_files(Trial& trial, MemoryBudget& budget) {
    constexpr std::uint64_t kMin = std::uint64_t{1} << 12;
    const std::uint64_t room = budget.left() / sizeof(Packet);
    const auto longest = static_cast<std::size_t>(std::max(room / 4, kMin));
    MemoryBudget no_memory(0, budget.directory());
    SpillColumn<Packet> packets(no_memory);
    const std::vector<std::size_t> starts = write_runs(trial, longest, packets);
    const std::size_t buffered = std::max<std::size_t>(longest / starts.size(), 64);
    Trial sorted(budget);
    merge_runs(packets, starts, buffered, sorted);
    trial.identities.swap(sorted.identities);
    trial.timestamps.swap(sorted.timestamps);
}

struct TimeScan {
    bool sorted = true;
    std::uint64_t equal = 0;
    std::int64_t first = 0;
    std::int64_t last = 0;
};

TimeScan scan(const SpillColumn<std::int64_t>& timestamps) {
    TimeScan seen;
    bool has_packets = false;
    timestamps.for_each_chunk([&](std::span<const std::int64_t> chunk) {
        for (const std::int64_t ts_ns : chunk) {
            if (!has_packets) seen.first = seen.last = ts_ns;
            seen.sorted &= ts_ns >= seen.last;
            seen.equal += has_packets && ts_ns == seen.last;
            seen.last = ts_ns;
            has_packets = true;
        }
    });
    return seen;
}

}  // namespace

void finish_trial(Trial& trial, MemoryBudget& budget) {
    TimeScan seen = scan(trial.timestamps);
    if (!seen.sorted) {
        // The memory reserved for the pairs is free until they are compared.
        const bool fits = trial.size() * kSortBytes <= budget.left() + budget.total();
        if (fits && trial.identities.in_memory() && trial.timestamps.in_memory()) {
            sort_in_memory(trial);
        } else {
            sort_through_files(trial, budget);
        }
        seen = scan(trial.timestamps);
    }
    trial.first_ns = seen.first;
    trial.last_ns = seen.last;
    trial.equal_stamps = seen.equal;
    // Ensures that every difference of two times since the first packet fits in a signed 64-bit integer.
    if (trial.duration_ns() >> 63 != 0)
        throw TrialError(trial.files.front().path +
                         ": the timestamps of this trial are more than 292 years apart");
}

}  // namespace acapella::kappa
