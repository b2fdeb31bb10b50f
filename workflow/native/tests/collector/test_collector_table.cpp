// Flows from reports: selection of the newer report, epochs, counts of the published format, threads,
// concurrent reads, and rings written by a device.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

#include "collector/collector.hpp"
#include "collector/receive/rdma_ring.hpp"
#include "collector/receive/ring_poller.hpp"
#include "collector/report_bytes.hpp"

using namespace acapella::collector;
using namespace acapella::test;

namespace {

FlowTable table_of(Format format, unsigned threads = 1, std::optional<std::uint64_t> series_ns = {},
                   std::uint64_t max_flows = 1000) {
    TableConfig config;
    config.format = format;
    config.threads = threads;
    config.series_ns = series_ns;
    config.max_flows = max_flows;
    return FlowTable(config);
}

void take(FlowTable& table, const std::byte* bytes, std::uint32_t count) {
    const ReportRun run{bytes, count};
    table.take({&run, 1});
}

// Returns the state of one flow after these reports.
FlowState state_after(Format format, const std::vector<ByteVector>& reports) {
    FlowTable table = table_of(format);
    for (const ByteVector& report : reports) take(table, report.data(), 1);
    EXPECT_EQ(table.flows(), 1U);
    return table.flow(0).state;
}

ByteVector many_reports(std::uint32_t count, std::uint32_t flows) {
    ByteVector reports;
    for (std::uint32_t n = 0; n < count; ++n) {
        const ByteVector report = format2_report(n * 7 % flows, n / 1000, n, n + 1, n);
        reports.insert(reports.end(), report.begin(), report.end());
    }
    return reports;
}

}  // namespace

TEST(Flow, CountsOfAnEpochAreFromItsLargestReport) {
    const std::vector<ByteVector> reports = {
        format2_report(1, 1, 10, 1, 100), format2_report(1, 2, 20, 3, 5), format2_report(1, 1, 15, 2, 300),
        format2_report(1, 2, 21, 4, 70), format2_report(1, 2, 20, 2, 60)};
    const FlowState flow = state_after(Format::tagged, reports);
    EXPECT_EQ(flow.bytes(), 370U);
    EXPECT_EQ(flow.epochs, 2U);
    EXPECT_EQ(flow.older_reports, 2U);
    EXPECT_EQ(flow.timestamp, 21U);
}

TEST(Flow, ReportOfAClosedEpochIsLate) {
    FlowTable table = table_of(Format::tagged);
    for (const std::uint32_t epoch : {1U, 2U, 3U, 1U}) {
        const ByteVector report = format2_report(1, epoch, epoch, epoch, 10);
        take(table, report.data(), 1);
    }
    EXPECT_EQ(table.counts()[Effect::late], 1U);
    EXPECT_EQ(table.flow(0).state.bytes(), 30U);
}

TEST(Flow, EqualReportIsRepeated) {
    FlowTable table = table_of(Format::tagged);
    const ByteVector report = format2_report(1, 1, 1, 1, 10);
    take(table, report.data(), 1);
    take(table, report.data(), 1);
    EXPECT_EQ(table.counts()[Effect::repeated], 1U);
    EXPECT_EQ(table.flow(0).state.bytes(), 10U);
}

TEST(Flow, FilledGapIsSubtractedAndNewStartResetsCounts) {
    using namespace format2;
    const auto report = [](std::uint32_t time, std::uint64_t started, std::uint64_t payload,
                           std::uint64_t gap) {
        constexpr unsigned kKnown = valid_bits::slot | valid_bits::start | valid_bits::uncertain;
        return with(format2_report(1, 1, time, time), valid, kKnown, start, started, payload_bytes, payload,
                    gap_bytes, gap, uncertain_bytes, 10 * time, duplicate_acks, time);
    };
    const FlowState flow = state_after(Format::tagged, {report(1, 50, 1000, 300), report(2, 50, 1300, 0),
                                                        report(3, 50, 1400, 70), report(4, 60, 2000, 80)});
    EXPECT_EQ(flow.payload_bytes, 3400U);
    EXPECT_EQ(flow.gap_bytes, 150U);
    EXPECT_EQ(flow.uncertain_bytes, 70U);
    EXPECT_EQ(flow.duplicate_acks, 7U);
}

TEST(Flow, SynRestartsSequenceNumbers) {
    using namespace format2;
    const auto report = [](std::uint32_t time, unsigned triggers, unsigned known, std::uint32_t end,
                           std::uint32_t acked, std::uint32_t first) {
        return with(format2_report(1, 1, time, time), first_ack, first, trigger, triggers, valid, known,
                    seq_end, end, ack, acked);
    };
    constexpr unsigned kSeq = valid_bits::slot | valid_bits::seq, kBoth = kSeq | valid_bits::ack;
    const std::vector<ByteVector> reports = {
        report(1, trigger_bits::syn, kSeq, 103, 0, 0), report(2, trigger_bits::ack, kBoth, 301, 201, 101),
        report(3, trigger_bits::syn, kSeq, 0x70000001, 0, 0),
        report(4, trigger_bits::ack, kBoth, 0x70000031, 0x70000011, 0x70000001)};
    const FlowState flow = state_after(Format::tagged, reports);
    EXPECT_EQ(flow.acked_bytes, 116U);
    EXPECT_EQ(flow.seq - flow.ack, 0x20U);
}

TEST(Flow, InterArrivalTimeIsFromTheNewestReport) {
    using namespace format2;
    const auto report = [](std::uint32_t time, unsigned known) {
        return with(format2_report(1, 1, time, time), valid, known, iat, 7000);
    };
    EXPECT_TRUE(state_after(Format::tagged, {report(1, valid_bits::iat)}).has(FlowState::kIat));
    EXPECT_FALSE(
        state_after(Format::tagged, {report(1, valid_bits::iat), report(2, 0)}).has(FlowState::kIat));
    const ByteVector with_gap = with(format1_report(1, 1, 1), format1::iat, 7000);
    EXPECT_TRUE(state_after(Format::published, {with_gap}).has(FlowState::kIat));
    EXPECT_FALSE(state_after(Format::published, {with_gap, format1_report(2, 2, 2)}).has(FlowState::kIat));
}

TEST(Flow, AcknowledgedBytesCountFromTheFirstAcknowledgmentOfTheSlot) {
    using namespace format2;
    const auto report = [](std::uint32_t time, unsigned known, std::uint32_t first, std::uint32_t acked) {
        return with(format2_report(1, 1, time, time), valid, known, first_ack, first, ack, acked);
    };
    constexpr unsigned kAcked = valid_bits::slot | valid_bits::ack;
    EXPECT_EQ(
        state_after(Format::tagged, {report(1, kAcked, 100, 400), report(2, kAcked, 100, 450)}).acked_bytes,
        350U);
    EXPECT_EQ(state_after(Format::tagged, {report(1, kAcked, 0xffffff00, 0x100)}).acked_bytes, 0x200U);
    // Without a slot, acknowledgments are unknown, so those before the first one of the slot are missing.
    EXPECT_FALSE(
        state_after(Format::tagged, {report(1, 0, 0, 0), report(2, kAcked, 300, 400)}).knows_acked());
    EXPECT_TRUE(state_after(Format::tagged,
                            {report(1, kAcked, 300, 400), report(2, 0, 0, 0), report(3, kAcked, 900, 900)})
                    .knows_acked());
}

TEST(Flow, FlowWithoutSlotIsPartlyFollowed) {
    using namespace format2;
    const auto report = [](std::uint32_t time, unsigned triggers, unsigned known, std::uint64_t started) {
        return with(format2_report(1, 1, time, time), trigger, triggers, valid, known, start, started);
    };
    constexpr unsigned kNth = trigger_bits::nth, kSyn = trigger_bits::syn,
                       kWithSlot = valid_bits::slot | valid_bits::start;
    const auto partly = [](const std::vector<ByteVector>& reports) {
        return state_after(Format::tagged, reports).has(FlowState::kUnfollowed);
    };
    EXPECT_FALSE(partly({report(1, kNth, kWithSlot, 1), report(2, kNth, kWithSlot, 1)}));
    EXPECT_FALSE(
        partly({report(1, kNth, kWithSlot, 1), report(2, kSyn, kWithSlot, 2)}));  // another connection
    EXPECT_TRUE(partly({report(1, kNth, kWithSlot, 1), report(2, kNth, kWithSlot, 2)}));
    EXPECT_TRUE(partly({report(1, kNth, kWithSlot, 1), report(2, kNth, 0, 0)}));
    EXPECT_TRUE(partly({report(1, kNth, 0, 0), report(2, kNth, kWithSlot, 2)}));
    EXPECT_TRUE(partly({report(2, kNth, kWithSlot, 2), report(1, kNth, 0, 0)}));  // in any order
}

TEST(Flow, DecreasedPublishedCountWrappedOrWasReset) {
    EXPECT_EQ(state_after(Format::published, {format1_report(1, 3000, 2), format1_report(2, 180, 3)}).bytes(),
              3180U);
    EXPECT_EQ(
        state_after(Format::published, {format1_report(1, 3000, 2), format1_report(2, 180, 3)}).packets(),
        5U);
    const FlowState packets = state_after(
        Format::published, {format1_report(1, 70'000'000, 65'535), format1_report(2, 70'003'000, 1)});
    EXPECT_EQ(packets.packets(), 65'537U);
    EXPECT_EQ(packets.bytes(), 70'003'000U);
    const FlowState bytes = state_after(
        Format::published, {format1_report(1, 0xffff'ff00, 40'000), format1_report(2, 0x500, 40'001)});
    EXPECT_EQ(bytes.bytes(), 0x1'0000'0500U);
}

TEST(Flow, PublishedTimesExceed48Bits) {
    constexpr std::uint64_t kWrap = std::uint64_t{1} << 48;
    const FlowState flow =
        state_after(Format::published, {format1_report(kWrap - 10, 1, 1), format1_report(5, 2, 2)});
    EXPECT_EQ(flow.timestamp, kWrap + 5);
    EXPECT_EQ(flow.older_reports, 0U);
    EXPECT_EQ(
        state_after(Format::published, {format1_report(100, 1, 1), format1_report(50, 2, 2)}).older_reports,
        1U);
}

TEST(FlowTable, ResultDoesNotDependOnThreads) {
    const ByteVector reports = many_reports(20'000, 999);
    FlowTable one_thread = table_of(Format::tagged, 1, 100);
    FlowTable five_threads = table_of(Format::tagged, 5, 100);
    for (FlowTable* table : {&one_thread, &five_threads}) {
        for (std::uint32_t first = 0; first < 20'000; first += 3'000)
            take(*table, reports.data() + first * format2::kBytes, std::min(3'000U, 20'000U - first));
        table->close_windows();
    }
    ASSERT_EQ(one_thread.flows(), five_threads.flows());
    for (std::uint32_t i = 0; i < one_thread.flows(); ++i) {
        EXPECT_EQ(one_thread.flow(i).key, five_threads.flow(i).key);
        EXPECT_EQ(one_thread.flow(i).state.bytes(), five_threads.flow(i).state.bytes());
    }
    ASSERT_EQ(one_thread.series().size(), five_threads.series().size());
    for (std::size_t i = 0; i < one_thread.series().size(); ++i) {
        EXPECT_EQ(one_thread.series()[i].flow, five_threads.series()[i].flow);
        EXPECT_EQ(one_thread.series()[i].bytes, five_threads.series()[i].bytes);
    }
}

// In the published format, only three words are compared. They contain all fields of the key.
TEST(RecordPool, EveryFieldOfTheKeyIsCompared) {
    using namespace format1;
    const ByteVector report = format1_report(1, 1, 1);
    const auto key = key_of<Format::published>(report.data());
    RecordPool pool;
    pool.add(key, FlowState{});
    EXPECT_TRUE(pool.has_key<Format::published>(0, key));
    const auto is_distinguished = [&](auto field) {
        return !pool.has_key<Format::published>(0, key_of<Format::published>(with(report, field, 1).data()));
    };
    EXPECT_TRUE(is_distinguished(src));
    EXPECT_TRUE(is_distinguished(dst));
    EXPECT_TRUE(is_distinguished(src_port));
    EXPECT_TRUE(is_distinguished(dst_port));
}

TEST(RecordPool, FullPoolThrows) {
    const auto key = key_of<Format::tagged>(format2_report(1, 1, 1, 1).data());
    RecordPool pool(2);
    EXPECT_EQ(pool.add(key, FlowState{}), 0U);
    EXPECT_EQ(pool.add(key, FlowState{}), 1U);
    EXPECT_THROW(pool.add(key, FlowState{}), std::bad_alloc);
    EXPECT_EQ(pool.size(), 2U);
}

// Two flows with the same slot and the same hash bits in the slot: only their keys differ.
TEST(FlowTable, HashCollisionsDoNotMergeFlows) {
    const acapella::TableHash hash(1);
    std::unordered_map<std::uint64_t, unsigned> seen;
    std::pair<unsigned, unsigned> twins{0, 0};
    for (unsigned flow = 0; twins.second == 0 && flow < 1'000'000; ++flow) {
        const std::uint64_t bits =
            hash_of<Format::tagged>(hash, key_of<Format::tagged>(format2_report(flow, 1, 1, 1).data()));
        // The smallest index has 2^10 slots, which store bits 42 to 63 of the hash of a flow.
        const auto [at, is_new] = seen.emplace(bits >> 42 << 10 | (bits & 1023), flow);
        if (!is_new) twins = {at->second, flow};
    }
    ASSERT_NE(twins.second, 0U);
    ByteVector reports;
    for (std::uint32_t n = 0; n < 300; ++n) {
        const ByteVector report = format2_report(n % 3 == 0 ? twins.second : twins.first, 1, n, n, n);
        reports.insert(reports.end(), report.begin(), report.end());
    }
    TableConfig config;
    FlowTable table(config, hash);
    take(table, reports.data(), 300);
    ASSERT_EQ(table.flows(), 2U);
    EXPECT_EQ(table.flow(0).state.reports, 100U);
    EXPECT_EQ(table.flow(0).state.bytes(), 297U);
    EXPECT_EQ(table.flow(1).state.reports, 200U);
    EXPECT_EQ(table.flow(1).state.bytes(), 299U);
}

TEST(FlowTable, FlowsBeyondTheMemoryLimitAreCounted) {
    const ByteVector reports = many_reports(4'000, 2'000);
    FlowTable table = table_of(Format::tagged, 1, {}, 100);
    for (std::uint32_t n = 0; n < 4'000; n += 50) take(table, reports.data() + n * format2::kBytes, 50);
    EXPECT_EQ(table.flows(), 100U);
    EXPECT_EQ(table.counts()[Effect::newer] + table.counts()[Effect::refused], 4'000U);
}

TEST(FlowTable, CanBeReadWhileItIsFilled) {
    const ByteVector reports = many_reports(2'000, 50);
    FlowTable table = table_of(Format::tagged, 2);
    std::atomic<bool> ended{false};
    std::uint64_t visits = 0;
    std::thread reader([&] {
        do {
            table.visit([](const FlowSnapshot& flow) {
                EXPECT_EQ(flow.key.ip_version, 4);
                // Time and sequence number of each report are related, so an inconsistent state would be
                // detected.
                EXPECT_EQ(flow.state.timestamp + 1, flow.state.sequence);
            });
            ++visits;
        } while (!ended);
    });
    for (int turn = 0; turn < 20; ++turn) take(table, reports.data(), 2'000);
    ended = true;
    reader.join();
    EXPECT_GT(visits, 0U);
}

TEST(RingPoller, LastReportIsReadAtTheNextPoll) {
    ByteVector ring(4 * format2::kBytes);
    RingPoller poller(ring.data(), 4, Format::tagged, true);
    std::vector<std::byte> found;
    const auto write = [&](std::uint32_t sequence) {
        const ByteVector report = format2_report(1, 0, sequence, sequence);
        std::memcpy(ring.data() + (sequence - 1) % 4 * format2::kBytes, report.data(), report.size());
    };
    EXPECT_EQ(poller.poll(found, 10), 0U);
    write(1);
    write(2);
    EXPECT_EQ(poller.poll(found, 10), 1U);
    EXPECT_EQ(poller.poll(found, 10), 1U);
    EXPECT_EQ(poller.poll(found, 10), 0U);
    write(3);
    write(5);  // 4 is lost
    EXPECT_EQ(poller.poll(found, 10), 0U);
    EXPECT_EQ(poller.poll(found, 10), 1U);
    EXPECT_EQ(poller.poll(found, 10), 1U);
    EXPECT_EQ(poller.lost(), 1U);
    for (std::uint32_t sequence = 6; sequence < 20; ++sequence) write(sequence);
    const std::uint32_t caught_up = poller.poll(found, 10) + poller.poll(found, 10);
    EXPECT_EQ(caught_up, 4U);
    EXPECT_EQ(poller.overrun(), 10U);  // of 14, the ring held the last 4
    EXPECT_EQ(poller.lost(), 1U);
    EXPECT_EQ(found.size(), 8 * format2::kBytes);
}

TEST(RingPoller, DetectsPublishedReportsByTime) {
    ByteVector ring(3 * format1::kBytes);
    RingPoller poller(ring.data(), 3, Format::published, true);
    std::vector<std::byte> found;
    for (std::uint64_t time = 1; time < 8; ++time) {
        const ByteVector report = format1_report(time, time, time);
        std::memcpy(ring.data() + (time - 1) % 3 * format1::kBytes, report.data(), report.size());
        poller.poll(found, 10);
        poller.poll(found, 10);
        EXPECT_EQ(found.size() / format1::kBytes, time);
    }
    EXPECT_EQ(poller.overrun(), 0U);
}

TEST(RingPoller, ReportInTheOnlySlotIsReadAtTheNextPoll) {
    ByteVector ring = format2_report(1, 0, 1, 1);
    RingPoller poller(ring.data(), 1, Format::tagged, true);
    std::vector<std::byte> found;
    EXPECT_EQ(poller.poll(found, 10), 0U);
    EXPECT_EQ(poller.poll(found, 10), 1U);
}

TEST(RdmaRing, MissingDeviceIsAnError) {
    if (!RdmaRing::devices().empty()) GTEST_SKIP() << "this machine has an RDMA device";
    RdmaConfig config;
    config.slots = 4;
    try {
        RdmaRing::open(config);
        FAIL() << "opened";
    } catch (const RdmaError& error) {
        const std::string what = error.what();
        EXPECT_TRUE(what == "no RDMA device on this machine" || what.find("libibverbs") != std::string::npos)
            << what;
    }
}
