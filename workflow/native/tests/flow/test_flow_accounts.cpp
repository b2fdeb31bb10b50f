// Flow statistics in cases that the comparison in Python does not include: limits and rare events.
#include <gtest/gtest.h>

#include "columns/flow_columns.hpp"
#include "flow/flow_frames.hpp"
#include "flow/flow_table.hpp"

namespace acapella {
namespace {

using test::dissection;
using test::Ends;
using test::row;

class FlowStatistics : public testing::Test {
  protected:
    std::uint32_t key(const Ends& ends, std::initializer_list<std::uint16_t> vlans = {}) {
        return keys.intern(dissection(ends, vlans));
    }
    std::uint32_t add(const FrameRow& frame) { return flow_table.add(frame, frame.stack, {}); }

    FlowKeys keys;
    FlowTable flow_table{keys};
};

TEST_F(FlowStatistics, FlowsAreNumberedByFirstFrame) {
    const std::uint32_t late = key({});
    const std::uint32_t early = key({.src = 9});
    EXPECT_EQ(add(row(early, {})), 0);
    EXPECT_EQ(add(row(late, {})), 1);
    EXPECT_EQ(add(row(early, {})), 0);
    EXPECT_EQ(add(row(kNone, {})), kNone);
}

TEST_F(FlowStatistics, ExtremeTimesSaturate) {
    const std::uint32_t flow = key({});
    for (int i = 0; i < 8; ++i) add(row(flow, {}, i % 2 == 0 ? INT64_MIN : INT64_MAX));
    EXPECT_EQ(flow_table.first_and_last_ns(0), std::pair(INT64_MIN, INT64_MAX));
    EXPECT_EQ(flow_table.flow(0).iat_min_ns, INT64_MIN);
    EXPECT_EQ(flow_table.flow(0).iat_max_ns, INT64_MAX);
    const CapturePoint capture_point;
    HeaderStacks header_stacks;
    header_stacks.intern("eth:ethertype:ip:tcp", "Ethernet/IPv4/TCP");
    EXPECT_EQ(FlowColumns(keys, header_stacks, flow_table, capture_point).rows(0, 5).columns.length, 1);
}

TEST_F(FlowStatistics, TooManyGapsDropTheLowestRangesAndAreCounted) {
    const std::uint32_t flow = key({});
    for (std::uint32_t i = 0; i < 5000; ++i) add(row(flow, {.seq = 100 * i, .payload = 10}));
    EXPECT_EQ(flow_table.ranges_forgotten(), 5000 - 1 - 4096);
    add(row(flow, {.seq = 0, .payload = 10}));  // dropped
    EXPECT_EQ(flow_table.tcp(0)->retransmitted_bytes, 0);
    add(row(flow, {.seq = 400000, .payload = 10}));
    EXPECT_EQ(flow_table.tcp(0)->retransmitted_bytes, 10);
}

TEST_F(FlowStatistics, WrappingSequenceNumbersAreNotRetransmissions) {
    const std::uint32_t flow = key({});
    std::uint32_t seq = 5;
    for (int i = 0; i < 40; ++i, seq += 0x20000000) add(row(flow, {.seq = seq, .payload = 0x20000000}));
    EXPECT_EQ(flow_table.tcp(0)->retransmitted_bytes, 0);
    add(row(flow, {.seq = seq - 100, .payload = 100}));
    EXPECT_EQ(flow_table.tcp(0)->retransmitted_bytes, 100);
}

TEST_F(FlowStatistics, UnknownPayloadLengthIsNotADuplicateAck) {
    const Ends ends;
    const std::uint32_t data = key(ends);
    const std::uint32_t acks = key(ends.back());
    add(row(data, {.seq = 100, .payload = 50}));
    FrameRow ack = row(acks, {.ack = 100});
    add(ack);
    add(ack);
    ack.bits = FrameRow::kHasTcp;
    add(ack);
    EXPECT_EQ(flow_table.duplicate_acks(1), 1);
}

TEST_F(FlowStatistics, FlagCountsExceedTheirCounters) {
    const std::uint32_t flow = key({});
    for (int i = 0; i < 200'000; ++i)
        add(row(flow, {.flags = static_cast<std::uint16_t>(i % 2 == 0 ? kAck : kAck | kPsh)}));
    EXPECT_EQ(flow_table.flag_count(0, FlagCount::kAck), 200'000);
    EXPECT_EQ(flow_table.flag_count(0, FlagCount::kPsh), 100'000);
    EXPECT_EQ(flow_table.flag_count(0, FlagCount::kSyn), 0);
}

TEST_F(FlowStatistics, OnlySixteenRunsAreKept) {
    const std::uint32_t flow = key({});
    for (std::uint32_t i = 0; i < 18; ++i)
        for (int repeat = 0; repeat < 3; ++repeat) add(row(flow, {}, 0, i));
    const std::vector<StackRun> runs = flow_table.runs(0);
    ASSERT_EQ(runs.size(), 16);
    EXPECT_EQ(runs.back().stack, 15);
    EXPECT_EQ(runs.back().frames, 3);
    EXPECT_TRUE(flow_table.flow(0).runs_cut);
}

TEST_F(FlowStatistics, ApplicationIsTheMostFrequentTokenUnlessDataIsOver16TimesAsFrequent) {
    TextTable tokens;
    const std::uint32_t data = tokens.intern("data"), tls = tokens.intern("tls"),
                        http = tokens.intern("http");
    const std::uint32_t flow = key({});
    const auto frame = [&](std::vector<std::uint32_t> above, bool carried_over = false) {
        flow_table.add(row(flow, {}), 0, {above, carried_over});
    };
    EXPECT_EQ(application_of(flow_table, add(row(flow, {})), tokens), "");
    frame({data});
    frame({data});
    EXPECT_EQ(application_of(flow_table, 0, tokens), "data");
    frame({tls});
    EXPECT_EQ(application_of(flow_table, 0, tokens), "tls");
    frame({tls, http});
    frame({http}, true);
    EXPECT_EQ(application_of(flow_table, 0, tokens), "http");
    EXPECT_TRUE(flow_table.flow(0).application_carried_over);
    for (int i = 0; i < 30; ++i) frame({data});
    EXPECT_EQ(application_of(flow_table, 0, tokens), "http") << "2 frames to 32 of data";
    frame({data});
    EXPECT_EQ(application_of(flow_table, 0, tokens), "data") << "2 frames to 33 of data";
}

TEST_F(FlowStatistics, FlowsWithEqualEndpointsArePairedByVlan) {
    const Ends ends;
    for (std::uint16_t vlan = 0; vlan < 500; ++vlan) add(row(key(ends, {vlan}), {}));
    for (std::uint16_t vlan = 500; vlan-- > 0;) add(row(key(ends.back(), {vlan}), {}));
    for (std::uint32_t flow = 0; flow < 1000; ++flow) {
        EXPECT_EQ(flow_table.peer(flow), 999 - flow);
        EXPECT_EQ(flow_table.peer_candidates(flow), 500);
    }
    EXPECT_EQ(flow_table.peers_ambiguous(), 0);
}

}  // namespace
}  // namespace acapella
