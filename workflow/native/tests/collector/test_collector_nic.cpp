// The functions of an RDMA NIC: verdicts on frames, packet sequence numbers, the ring.
#include <gtest/gtest.h>

#include <memory>

#include "collector/collector.hpp"
#include "collector/receive/crc32.hpp"
#include "collector/report_bytes.hpp"

using namespace acapella;
using namespace acapella::collector;
using namespace acapella::test;

namespace {

constexpr std::uint64_t kBase = 0x7000;
constexpr std::uint32_t kSlots = 8;

CollectorConfig config(std::uint32_t psn = 0) {
    CollectorConfig result;
    result.queue_pairs = {{0x11, 0x1234, kBase, kSlots, psn}};
    return result;
}

std::uint64_t count(const Collector& collector, Verdict verdict) {
    return collector.counters().verdicts[static_cast<std::size_t>(verdict)];
}

// Uses a buffer of exactly the captured size, so that the sanitizer detects reads beyond it.
Verdict verdict_of(const ByteVector& frame, std::size_t captured, std::size_t wire) {
    const auto exact = std::make_unique<std::byte[]>(captured);
    std::copy_n(frame.begin(), captured, exact.get());
    WriteRequest request;
    return parse({exact.get(), captured}, static_cast<std::uint32_t>(wire), true, request);
}

Verdict verdict_of(const ByteVector& frame) { return verdict_of(frame, frame.size(), frame.size()); }

ByteVector report() { return format2_report(1, 0, 1, 1); }

}  // namespace

TEST(Crc32, MatchesTheStandardForAllLengths) {
    ByteVector data;
    for (const char letter : std::string("123456789")) data.push_back(static_cast<std::byte>(letter));
    EXPECT_EQ(~crc32_update(0xffffffff, data), 0xcbf43926);
    data.clear();
    for (std::size_t length = 0; length < 400; ++length) {
        EXPECT_EQ(~crc32_update(0xffffffff, data), plain_crc32(data)) << length;
        EXPECT_EQ(~crc32_update_by_tables(0xffffffff, data), plain_crc32(data)) << length;
        data.push_back(static_cast<std::byte>(length * 37));
    }
}

TEST(Crc32, CanBeContinuedAtAnyOffset) {
    ByteVector data;
    for (std::size_t i = 0; i < 300; ++i) data.push_back(static_cast<std::byte>(i * i));
    for (std::size_t cut = 0; cut < data.size(); cut += 7) {
        const std::span<const std::byte> bytes(data);
        EXPECT_EQ(crc32_update(crc32_update(0xffffffff, bytes.first(cut)), bytes.subspan(cut)),
                  crc32_update(0xffffffff, bytes));
    }
}

// Tests every length and alignment, in a buffer of exactly the required size.
TEST(Crc32, MaskEqualsMaskedBytes) {
    std::array<std::byte, kCrcMask> mask{};
    for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = static_cast<std::byte>(i % 5 == 0 ? 0xff : i);
    for (std::size_t offset = 0; offset < 16; ++offset) {
        for (std::size_t length = kCrcMask; length < 330; ++length) {
            const auto memory = std::make_unique<std::byte[]>(offset + length);
            const std::span<std::byte> data(memory.get() + offset, length);
            for (std::size_t i = 0; i < length; ++i) data[i] = static_cast<std::byte>(i * 37 + offset);
            ByteVector written(kCrcOnes, std::byte{0xff});
            written.insert(written.end(), data.begin(), data.end());
            for (std::size_t i = 0; i < mask.size(); ++i) written[kCrcOnes + i] |= mask[i];
            EXPECT_EQ(~crc32_of_masked(mask, data), plain_crc32(written)) << offset << " " << length;
        }
    }
}

// Tests both code paths: a packet may be shorter than the mask.
TEST(Roce, IcrcEqualsCrcOfMaskedPacketForAllLengths) {
    constexpr std::size_t kVariant[] = {1, 8, 10, 11, 26, 27, 32};  // annex A17 of the IBTA specification
    for (std::size_t length = 33; length < 300; ++length) {
        ByteVector packet;
        for (std::size_t i = 0; i < length; ++i) packet.push_back(static_cast<std::byte>(i * 11));
        ByteVector written(8, std::byte{0xff});
        written.insert(written.end(), packet.begin(), packet.end());
        for (const std::size_t at : kVariant) written[8 + at] = std::byte{0xff};
        EXPECT_EQ(icrc_of(packet), __builtin_bswap32(plain_crc32(written))) << length;
    }
}

TEST(Roce, AcceptsWritesWithAndWithoutTags) {
    EXPECT_EQ(verdict_of(frame({}, report())), Verdict::accepted);
    EXPECT_EQ(verdict_of(frame({.vlans = 3}, report())), Verdict::accepted);
}

TEST(Roce, EthernetPaddingIsIgnored) {
    ByteVector padded = frame({}, report());
    padded.resize(padded.size() + 30);
    EXPECT_EQ(verdict_of(padded), Verdict::accepted);
}

TEST(Roce, FrameTruncatedAnywhereIsTruncated) {
    const ByteVector complete = frame({.vlans = 1}, report());
    for (std::size_t length = 0; length < complete.size(); ++length)
        EXPECT_EQ(verdict_of(complete, length, complete.size()), Verdict::truncated) << length;
}

TEST(Roce, ShortFrameHasABadLength) {
    const ByteVector complete = frame({}, report());
    for (std::size_t length = 0; length < complete.size(); ++length) {
        const Verdict verdict = verdict_of(complete, length, length);
        EXPECT_EQ(verdict, length < 42 ? Verdict::not_roce : Verdict::bad_length) << length;
    }
}

TEST(Roce, EveryFlippedCoveredBitIsDetected) {
    const ByteVector complete = frame({}, report());
    std::size_t covered = 0;
    for (std::size_t bit = 14 * 8; bit < complete.size() * 8; ++bit) {
        ByteVector flipped = complete;
        flipped[bit / 8] ^= static_cast<std::byte>(0x80 >> bit % 8);
        const std::size_t at = bit / 8 - 14;
        const bool variant = at == 1 || at == 8 || at == 10 || at == 11 || at == 26 || at == 27 || at == 32;
        EXPECT_EQ(verdict_of(flipped) == Verdict::accepted, variant) << "bit " << bit;
        covered += variant ? 0 : 1;
    }
    EXPECT_EQ(covered, (complete.size() - 14 - 7) * 8);
}

TEST(Roce, OtherTrafficHasItsOwnVerdict) {
    EXPECT_EQ(verdict_of(frame({.port = 4790}, report())), Verdict::not_roce);
    EXPECT_EQ(verdict_of(frame({.opcode = 0x0a}, report())), Verdict::bad_opcode);
    EXPECT_EQ(verdict_of(frame({.opcode = 0x26}, report())), Verdict::bad_opcode);
    EXPECT_EQ(verdict_of(frame({.flags = 0x41}, report())), Verdict::bad_opcode);
    EXPECT_EQ(verdict_of(frame({.length = 0}, report())), Verdict::bad_length);
    EXPECT_EQ(verdict_of(frame({.length = 0x1'0000'0000 - 1}, report())), Verdict::bad_length);
}

TEST(Roce, PacketTooShortForHeadersHasABadLength) {
    for (std::uint32_t total = 28; total < 44; ++total) {
        ByteVector small = frame({}, report());
        small[14 + 2] = small[14 + 20 + 4] = std::byte{0};
        small[14 + 3] = static_cast<std::byte>(total);
        small[14 + 20 + 5] = static_cast<std::byte>(total - 20);
        EXPECT_EQ(verdict_of(small), Verdict::bad_length) << total;
    }
}

TEST(SequenceWindow, DistinguishesGapDuplicateAndReordered) {
    SequenceWindow window(10);
    EXPECT_EQ(window.position_of(10), SequenceWindow::Position::expected);
    EXPECT_EQ(window.advance(10), 0U);
    EXPECT_EQ(window.position_of(13), SequenceWindow::Position::ahead);
    EXPECT_EQ(window.advance(13), 2U);
    EXPECT_EQ(window.position_of(13), SequenceWindow::Position::duplicate);
    EXPECT_EQ(window.position_of(11), SequenceWindow::Position::reordered);
    window.mark(11);
    EXPECT_EQ(window.position_of(11), SequenceWindow::Position::duplicate);
    EXPECT_EQ(window.position_of(9), SequenceWindow::Position::duplicate);  // older than the queue pair
}

TEST(SequenceWindow, WrapsAround) {
    constexpr std::uint32_t kLast = SequenceWindow::kModulus - 1;
    SequenceWindow window(kLast - 1);
    window.advance(kLast - 1);
    EXPECT_EQ(window.advance(1), 2U);
    EXPECT_EQ(window.expected(), 2U);
    EXPECT_EQ(window.position_of(kLast), SequenceWindow::Position::reordered);
    EXPECT_EQ(window.position_of(kLast - 1), SequenceWindow::Position::duplicate);
}

TEST(SequenceWindow, ForgetsAfterACycle) {
    SequenceWindow window(0);
    window.advance(5);
    std::uint32_t psn = 5;
    for (int turn = 0; turn < 5; ++turn) {
        psn = (psn + SequenceWindow::kModulus / 2 - 1) % SequenceWindow::kModulus;
        ASSERT_EQ(window.position_of(psn), SequenceWindow::Position::ahead);
        EXPECT_EQ(window.advance(psn), SequenceWindow::kModulus / 2 - 2);
    }
    EXPECT_EQ(window.position_of((psn - 1) % SequenceWindow::kModulus), SequenceWindow::Position::reordered);
}

TEST(Collector, RejectedFramesAreCountedByReason) {
    Collector collector(config());
    const auto receive = [&](const FrameFields& fields, const ByteVector& payload) {
        const ByteVector bytes = frame(fields, payload);
        collector.receive(bytes, static_cast<std::uint32_t>(bytes.size()));
    };
    const std::size_t stride = format2::kBytes;
    receive({.address = kBase, .queue_pair = 0x12}, report());
    receive({.address = kBase, .key = 1}, report());
    receive({.address = kBase}, ByteVector(64));
    receive({.address = kBase}, {});
    receive({.address = kBase - stride}, report());
    receive({.address = kBase + stride / 2}, report());
    receive({.address = kBase + kSlots * stride}, report());
    receive({.address = ~std::uint64_t{0} - 100}, report());
    receive({.address = kBase}, ByteVector(stride, std::byte{3}));
    collector.drain();
    EXPECT_EQ(count(collector, Verdict::bad_qp), 1U);
    EXPECT_EQ(count(collector, Verdict::bad_key), 1U);
    EXPECT_EQ(count(collector, Verdict::bad_length), 2U);
    EXPECT_EQ(count(collector, Verdict::out_of_bounds), 4U);
    EXPECT_EQ(count(collector, Verdict::bad_version), 1U);
    EXPECT_EQ(collector.counters().lost, 0U);
    EXPECT_EQ(collector.counters().flows, 0U);
    EXPECT_EQ(collector.counters().frames, 9U);
    EXPECT_EQ(collector.table().reports(), 0U);
}

TEST(Collector, DuplicateAndReorderedReportsAreCountedAndDropped) {
    Collector collector(config(SequenceWindow::kModulus - 1));
    std::uint64_t written = 1;
    for (const std::uint32_t psn : {0xffffffU, 0U, 3U, 3U, 1U, 1U, 4U}) {
        const ByteVector bytes =
            frame({.psn = psn, .address = kBase}, format2_report(1, 0, written, 1, written));
        ++written;
        collector.receive(bytes, static_cast<std::uint32_t>(bytes.size()));
    }
    collector.drain();
    EXPECT_EQ(count(collector, Verdict::accepted), 4U);
    EXPECT_EQ(count(collector, Verdict::psn_duplicate), 2U);
    EXPECT_EQ(count(collector, Verdict::psn_reordered), 1U);
    EXPECT_EQ(collector.counters().lost, 2U);
    EXPECT_EQ(collector.table().flow(0).state.bytes(), 7U);
    EXPECT_EQ(collector.table().flow(0).state.reports, 4U);
}

TEST(Collector, SlotIsReadBeforeItIsOverwritten) {
    CollectorConfig small = config();
    Collector collector(small);
    for (std::uint32_t n = 0; n < 20; ++n) {
        const ByteVector bytes = frame({.psn = n, .address = kBase}, format2_report(n, 0, n, n + 1, 5));
        collector.receive(bytes, static_cast<std::uint32_t>(bytes.size()));
    }
    collector.drain();
    EXPECT_EQ(collector.counters().flows, 20U);
}

TEST(Collector, RemovedQueuePairIsRejected) {
    Collector collector(config());
    const ByteVector bytes = frame({.psn = 4, .address = kBase}, report());
    collector.receive(bytes, static_cast<std::uint32_t>(bytes.size()));
    collector.remove_queue_pair(0x11);
    collector.receive(bytes, static_cast<std::uint32_t>(bytes.size()));
    collector.drain();
    EXPECT_EQ(count(collector, Verdict::bad_qp), 1U);
    EXPECT_EQ(collector.counters().lost, 4U);
    EXPECT_EQ(collector.counters().flows, 1U);
}

TEST(Collector, InvalidConfigurationIsRejected) {
    CollectorConfig wrong = config();
    wrong.queue_pairs[0].slots = 0;
    EXPECT_THROW(Collector{wrong}, ConfigError);
    wrong = config();
    wrong.queue_pairs[0].number = 1U << 24;
    EXPECT_THROW(Collector{wrong}, ConfigError);
    wrong = config();
    wrong.threads = 0;
    EXPECT_THROW(Collector{wrong}, ConfigError);
}
