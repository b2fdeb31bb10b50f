// Selection of the frames sent to tshark, and the applications of other frames determined from its rows.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <string_view>

#include "hybrid/application_cache.hpp"
#include "hybrid/selection.hpp"

namespace acapella::hybrid {
namespace {

Bytes bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

struct CountingSelection {
    explicit CountingSelection(SelectionPolicy policy = {}) : selection(policy, TableHash(1)) {}

    Choice select(std::string_view payload, std::uint32_t length = 1000, std::uint32_t flow = 0) {
        const Choice choice = selection.select(flow, bytes(payload), length);
        sent += choice.send;
        return choice;
    }

    Selection selection;
    int sent = 0;
};

std::string random_payload(std::mt19937& generator) {
    const auto word = static_cast<std::uint32_t>(generator());
    std::string payload(4, '\0');
    std::memcpy(payload.data(), &word, 4);
    return payload;
}

TEST(HybridSelection, FirstFramesOfEveryFlowAreSent) {
    CountingSelection frames;
    for (std::uint32_t flow = 0; flow < 5; ++flow) {
        EXPECT_TRUE(frames.select("\x17\x03\x03\x05", 1000, flow).send);
        EXPECT_TRUE(frames.select("\x17\x03\x03\x05", 1000, flow).send);
    }
}

TEST(HybridSelection, EqualFramesAreSentAtGrowingIntervals) {
    CountingSelection frames;
    for (int i = 0; i < 100'000; ++i) frames.select("\x17\x03\x03\x05");
    EXPECT_LE(frames.sent, 2 + 8);  // frames 16, 64, ..., 65,536 (from 0)
    EXPECT_GE(frames.sent, 2 + 6);
}

TEST(HybridSelection, NewKindIsSentTwice) {
    CountingSelection frames;
    for (int i = 0; i < 10; ++i) frames.select("GET /");
    const int sent_before = frames.sent;
    for (int i = 0; i < 4; ++i) frames.select("POST /");
    EXPECT_EQ(frames.sent, sent_before + 2);
}

TEST(HybridSelection, PayloadLengthIsPartOfTheKind) {
    CountingSelection frames;
    for (int i = 0; i < 10; ++i) frames.select("\x80\x60\x01\x02", 160);
    EXPECT_TRUE(frames.select("\x80\x60\x01\x02", 1200).send);
    EXPECT_FALSE(frames.select("\x80\x60\x01\x02", 161).send);
}

TEST(HybridSelection, RandomPayloadIsNotSent) {
    CountingSelection frames;
    std::mt19937 generator(3);
    for (int i = 0; i < 100'000; ++i) frames.select(random_payload(generator));
    EXPECT_LT(frames.sent, 60);
}

TEST(HybridSelection, PayloadThatWasNotCapturedHasAKind) {
    CountingSelection frames;
    EXPECT_TRUE(frames.select("", 0).send);
    EXPECT_TRUE(frames.select("", 1).send);
}

TEST(HybridSelection, MemoryIsBounded) {
    CountingSelection frames({1, 1U << 20, 1});
    std::mt19937 generator(5);
    for (std::uint32_t flow = 0; flow < kMaxKinds / 2; ++flow) {
        frames.select(random_payload(generator), 1000, flow);
        frames.select(random_payload(generator), 10, flow);
    }
    // The number of kinds is limited; the kinds of flows are not stored.
    EXPECT_LE(frames.selection.size(), kMaxKinds + kMaxKinds / 2);
}

TEST(ApplicationCache, RowDeterminesLaterFramesOfItsKind) {
    CountingSelection frames;
    ApplicationCache applications(frames.selection);
    const std::uint32_t hello = frames.select("\x16\x03\x01\x02").kind;
    const std::uint32_t tls = applications.learn(hello, "tls");
    EXPECT_EQ(applications.predict(hello), tls);
    const std::uint32_t other = frames.select("SSH-2.0").kind;
    EXPECT_EQ(applications.predict(other), tls) << "no result for this kind yet, so the flow's is used";
    const std::uint32_t ssh = applications.learn(other, "ssh");
    EXPECT_EQ(applications.predict(other), ssh);
    EXPECT_EQ(applications.predict(hello), tls);
}

TEST(ApplicationCache, OneOutlierChangesNothing) {
    CountingSelection frames;
    ApplicationCache applications(frames.selection);
    const std::uint32_t kind = frames.select("\x17\x03\x03\x05").kind;
    const std::uint32_t tls = applications.learn(kind, "tls");
    applications.learn(kind, "tls");
    applications.learn(kind, "data");
    EXPECT_EQ(applications.predict(kind), tls);
    const std::uint32_t data = applications.learn(kind, "data");
    EXPECT_EQ(applications.predict(kind), data);
}

TEST(ApplicationCache, NothingIsPredictedBeforeTheFirstRow) {
    CountingSelection frames;
    ApplicationCache applications(frames.selection);
    EXPECT_EQ(applications.predict(frames.select("GET /").kind), kNone);
}

TEST(ApplicationCache, StackIsTheNativeStackAndTheTokens) {
    CountingSelection frames;
    ApplicationCache applications(frames.selection);
    HeaderStacks header_stacks;
    const std::uint32_t native = header_stacks.intern("eth:ethertype:ip:tcp", "Ethernet/IPv4/TCP");
    const std::uint32_t tokens = applications.learn(frames.select("GET /").kind, "http:json");
    const std::uint32_t stack = applications.stack(header_stacks, native, tokens);
    EXPECT_EQ(header_stacks.protocols_text(stack), "eth:ethertype:ip:tcp:http:json");
    EXPECT_EQ(header_stacks.stack_text(stack), "Ethernet/IPv4/TCP/HTTP/JSON");
    EXPECT_EQ(applications.stack(header_stacks, native, tokens), stack);
}

}  // namespace
}  // namespace acapella::hybrid
