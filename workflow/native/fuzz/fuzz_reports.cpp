// Arbitrary bytes as frames for the collector: it must not read outside them, must count every frame and
// report once, and must give the same result with three threads as with one.
//
// One of four inputs, chosen by hash, is also converted to tables, and one of 64 is processed by three
// threads, because both are slow.
//
// Input: one byte of options, then frames: two bytes of length (little-endian), whose highest bit marks a
// truncated frame, and the bytes of the frame.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <vector>

#include "collector/collector.hpp"
#include "collector/table/report_columns.hpp"

namespace {

using namespace acapella;
using namespace acapella::collector;

constexpr std::uint32_t kSlots = 4;
// 100 to 200 flows, so that the table may become full and is created quickly
constexpr std::uint64_t kMemory = 1 << 16;

void check(bool holds) {
    if (!holds) std::abort();
}

CollectorConfig config_of(std::uint8_t choices, unsigned threads) {
    CollectorConfig config;
    config.format = (choices & 1) != 0 ? Format::published : Format::tagged;
    config.queue_pairs = {{0x11, 0x1234, 0x7000, kSlots, 0}};
    config.check_icrc = (choices & 2) != 0;
    if ((choices & 4) != 0) config.series_ns = (choices & 8) != 0 ? 0 : 1000;
    config.round = 1 + (choices >> 4);
    config.threads = threads;
    config.memory_bytes = kMemory;
    config.hash_seed = 1;  // not random: equal inputs reach the same code, and fuzzing is 1.2 times as fast
    return config;
}

void feed(Collector& collector, Bytes input) {
    while (input.size() >= 2) {
        const std::size_t head =
            std::to_integer<std::size_t>(input[0]) | std::to_integer<std::size_t>(input[1]) << 8;
        const std::size_t size = std::min<std::size_t>(head & 0x7fff, input.size() - 2);
        // A separate buffer, so that reads beyond it are detected.
        const std::vector<std::byte> frame(input.begin() + 2,
                                           input.begin() + 2 + static_cast<std::ptrdiff_t>(size));
        collector.receive(frame, static_cast<std::uint32_t>(size + (head >> 15) * 100));
        input = input.subspan(2 + size);
    }
    collector.finish();
}

void check_counts(const Counters& counters) {
    std::uint64_t frames = 0;
    for (const std::uint64_t count : counters.verdicts) frames += count;
    check(frames == counters.frames);
    std::uint64_t reports = 0;
    for (const Effect effect :
         {Effect::newer, Effect::older, Effect::repeated, Effect::late, Effect::refused})
        reports += counters.reports[effect];
    check(reports == counters.verdicts[static_cast<std::size_t>(Verdict::accepted)]);
    check(counters.flows <= counters.reports[Effect::newer]);
    check(counters.verdicts[static_cast<std::size_t>(Verdict::psn_reordered)] <= counters.lost);
}

void check_equal(const Collector& a, const Collector& b) {
    check(a.counters().verdicts == b.counters().verdicts && a.counters().lost == b.counters().lost);
    check(a.table().flows() == b.table().flows());
    for (std::uint32_t i = 0; i < a.table().flows(); ++i) {
        const FlowSnapshot x = a.table().flow(i);
        const FlowSnapshot y = b.table().flow(i);
        check(x.key == y.key && x.state.bytes() == y.state.bytes() && x.state.reports == y.state.reports);
        check(x.state.timestamp == y.state.timestamp && x.state.acked_bytes == y.state.acked_bytes);
    }
    check(a.table().series().size() == b.table().series().size());
    for (std::size_t i = 0; i < a.table().series().size(); ++i) {
        const SeriesRow& x = a.table().series()[i];
        const SeriesRow& y = b.table().series()[i];
        check(x.flow == y.flow && x.window_ns == y.window_ns && x.bytes == y.bytes && x.reports == y.reports);
        check(x.windows == y.windows && x.packets == y.packets && x.payload_bytes == y.payload_bytes);
    }
}

// Checks that tables can be created from any flows.
void check_columns(const Collector& collector) {
    std::vector<FlowSnapshot> flows;
    for (std::uint32_t i = 0; i < collector.table().flows(); ++i) flows.push_back(collector.table().flow(i));
    check(flow_batch(flows, "site").columns.length == static_cast<std::int64_t>(flows.size()));
    const auto& rows = collector.table().series();
    check(series_batch(rows).columns.length == static_cast<std::int64_t>(rows.size()));
}

// Checks that there are at most four rows per report and one more per flow, regardless of the time between
// reports, and that the windows add up exactly to the flows.
void check_series(const Collector& collector) {
    if (collector.config().series_ns.value_or(0) == 0) return;
    std::vector<std::array<std::uint64_t, 2>> left;
    for (std::uint32_t i = 0; i < collector.table().flows(); ++i) {
        const FlowState state = collector.table().flow(i).state;
        left.push_back({state.bytes(), state.packets()});
    }
    for (const SeriesRow& row : collector.table().series()) {
        check(row.flow < left.size() && row.windows > 0);
        left[row.flow][0] -= row.bytes;
        left[row.flow][1] -= row.packets;
    }
    for (const auto& flow : left) check(flow[0] == 0 && flow[1] == 0);
    const std::uint64_t newer = collector.counters().reports[Effect::newer];
    check(collector.table().series().size() <= 4 * newer + collector.table().flows());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 1) return 0;
    const Bytes input(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
    Collector collector(config_of(data[0], 1));
    feed(collector, input);
    check_counts(collector.counters());
    check_series(collector);
    const std::size_t hash = std::hash<std::string_view>()({reinterpret_cast<const char*>(data), size});
    if (hash % 4 == 0) check_columns(collector);
    if (hash % 64 == 0) {
        Collector threaded(config_of(data[0], 3));
        feed(threaded, input);
        check_equal(collector, threaded);
    }
    return 0;
}
