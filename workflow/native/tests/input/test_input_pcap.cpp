#include <gtest/gtest.h>

#include <iterator>
#include <utility>

#include "input/capture_bytes.hpp"

namespace acapella::test {
namespace {

using input::FileEnd;

std::vector<std::byte> text(const char* words) {
    Writer out;
    for (const char* at = words; *at != 0; ++at) {
        out.u8(static_cast<unsigned char>(*at));
    }
    return out.bytes;
}

TEST(Pcap, BothByteOrdersAndBothResolutions) {
    for (const bool big : {false, true}) {
        const auto us = read_all(join({pcap({.big_endian = big}), pcap_record(7, 5, 60, 100, big)}));
        EXPECT_EQ(us.frames, (std::vector<Frame>{{1, 7'000'005'000, 100, 60, 1, 0, 0}}));
        EXPECT_EQ(us.info.format, "pcap");
        EXPECT_EQ(us.info.ts_unit_ns, 1000);
        const auto ns =
            read_all(join({pcap({.magic = 0xa1b23c4d, .big_endian = big}), pcap_record(7, 5, 60, 100, big)}));
        EXPECT_EQ(ns.frames, (std::vector<Frame>{{1, 7'000'000'005, 100, 60, 1, 0, 0}}));
        EXPECT_EQ(ns.info.format, "pcap_ns");
        EXPECT_EQ(ns.info.ts_unit_ns, 1);
        EXPECT_EQ(ns.info.end, FileEnd::clean);
    }
}

TEST(Pcap, FileHeaderAloneIsACapture) {
    const auto reading = read_all(pcap({.snaplen = 200}));
    EXPECT_TRUE(reading.frames.empty());
    EXPECT_EQ(reading.info.end, FileEnd::clean);
    EXPECT_EQ(reading.info.snaplen, 200U);
    EXPECT_EQ(reading.info.link_types, (std::vector<std::uint16_t>{1}));
}

TEST(Pcap, SecondsAreUnsigned) {
    const auto reading = read_all(join({pcap(), pcap_record(0xffffffff, 5, 60, 60)}));
    EXPECT_EQ(reading.frames.at(0).ts_ns, 4'294'967'295'000'005'000);
}

TEST(Pcap, TimeGoingBackwardsIsKept) {
    const auto reading = read_all(join({pcap(), pcap_record(9, 0, 60, 60), pcap_record(8, 0, 60, 60)}));
    EXPECT_EQ(reading.frames.at(1).ts_ns, 8'000'000'000);
}

TEST(Pcap, FractionOfASecondOrMoreIsAddedAndCounted) {
    const auto reading =
        read_all(join({pcap(), pcap_record(1, 2'000'000, 60, 60), pcap_record(1, 999'999, 60, 60)}));
    EXPECT_EQ(reading.frames.at(0).ts_ns, 3'000'000'000);
    EXPECT_EQ(reading.info.bad_fractions, 1U);
}

TEST(Pcap, ZeroLengthFrames) {
    const auto reading = read_all(join({pcap(), pcap_record(1, 0, 0, 0), pcap_record(2, 0, 0, 60)}));
    EXPECT_EQ(reading.frames,
              (std::vector<Frame>{{1, 1'000'000'000, 0, 0, 1, 0, 0}, {2, 2'000'000'000, 60, 0, 1, 0, 0}}));
}

TEST(Pcap, CaptureLengthAboveSnapLengthOrWireLengthIsKept) {
    const auto reading = read_all(join({pcap({.snaplen = 40}), pcap_record(1, 0, 60, 50)}));
    EXPECT_EQ(reading.frames.at(0).cap_len, 60U);
    EXPECT_EQ(reading.frames.at(0).wire_len, 50U);
    EXPECT_EQ(reading.info.longer_than_snaplen, 1U);
}

TEST(Pcap, WireLengthMatchesWireshark) {
    const auto reading = read_all(join({pcap(), pcap_record(1, 0, 60, 0xf0000000)}));
    EXPECT_EQ(reading.frames.at(0).wire_len, 0x7fffffffU);
}

TEST(Pcap, FrameAboveTheMaximumEndsTheFile) {
    const auto good = join({pcap(), pcap_record(1, 0, 60, 60), pcap_record(2, 0, 262144, 262144)});
    EXPECT_EQ(read_all(good).frames.at(1).cap_len, 262144U);
    for (const std::uint64_t caplen : {std::uint64_t{262145}, std::uint64_t{0xffffffff}}) {
        const auto reading = read_all(
            join({good, Writer().u32(3).u32(0).u32(caplen).u32(60).bytes, pcap_record(4, 0, 60, 60)}));
        EXPECT_EQ(reading.frames.size(), 2U);
        EXPECT_EQ(reading.info.end, FileEnd::bad_caplen);
        EXPECT_EQ(reading.info.end_offset, good.size());
        EXPECT_EQ(reading.info.unread_bytes, 16U + 16U + 60U);
        EXPECT_EQ(reading.info.end_detail,
                  "capture length " + std::to_string(caplen) + " is larger than 262144");
    }
}

TEST(Pcap, LinkTypesWithLargerFrames) {
    for (const unsigned link_type : {231U, 249U, 279U}) {
        const auto reading =
            read_all(join({pcap({.network = link_type}), pcap_record(1, 0, 3U << 20U, 3U << 20U)}));
        EXPECT_EQ(reading.frames.at(0).cap_len, 3U << 20U) << link_type;
    }
}

TEST(Pcap, TruncatedFileKeepsCompleteRecords) {
    const std::vector<std::size_t> lengths{60, 0, 7};
    std::vector<std::byte> file = pcap();
    std::vector<std::size_t> ends{file.size()};
    for (const std::size_t length : lengths) {
        file = join({file, pcap_record(1, 0, length, length)});
        ends.push_back(file.size());
    }
    for (std::size_t cut = 24; cut <= file.size(); ++cut) {
        const auto reading = read_all({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(cut)});
        std::size_t complete = 0;
        while (complete + 1 < ends.size() && ends[complete + 1] <= cut) {
            ++complete;
        }
        EXPECT_EQ(reading.frames.size(), complete) << cut;
        EXPECT_EQ(reading.info.records, complete) << cut;
        const std::size_t left = cut - ends[complete];
        const FileEnd end = left == 0   ? FileEnd::clean
                            : left < 16 ? FileEnd::cut_header
                                        : FileEnd::cut_record;
        EXPECT_EQ(reading.info.end, end) << cut;
        EXPECT_EQ(reading.info.end_offset, ends[complete]) << cut;
        EXPECT_EQ(reading.info.unread_bytes, 0U) << cut;
    }
}

TEST(Pcap, FilesOfOtherFormatsAreRejected) {
    EXPECT_EQ(refusal({}), "empty_file");
    EXPECT_EQ(refusal(text("ab")), "not_a_capture");
    EXPECT_EQ(refusal(text("frame,time\n1,2\n")), "not_a_capture");
    EXPECT_EQ(refusal(text("BZh91AY&SY")), "unsupported_format");
    EXPECT_EQ(refusal(Writer().fill(100, 0).bytes), "not_a_capture");
    for (std::size_t size = 4; size < 24; ++size) {
        const auto complete = pcap();
        EXPECT_EQ(refusal({complete.begin(), complete.begin() + static_cast<std::ptrdiff_t>(size)}),
                  "cut_header")
            << size;
    }
    EXPECT_EQ(refusal(pcap({.major = 1})), "unsupported_version");
    EXPECT_EQ(refusal(pcap({.network = 0x00010001})), "bad_header");
}

TEST(Pcap, ErrorNamesFileAndReasonInOneLine) {
    const auto file = text("frame,time\n1,2\n");
    try {
        read_all(file);
        FAIL();
    } catch (const input::InputError& error) {
        EXPECT_STREQ(error.what(), "memory: text, not a pcap or pcapng capture");
    }
}

TEST(Pcap, FcsIsNotCountedInLengths) {
    const auto reading =
        read_all(join({pcap({.network = 0x24000001}), pcap_record(1, 0, 60, 60), pcap_record(1, 0, 58, 60),
                       pcap_record(1, 0, 40, 60), pcap_record(1, 0, 3, 3), pcap_record(1, 0, 4, 4)}));
    EXPECT_EQ(reading.frames.at(0).link_type, 1);
    const std::pair<std::uint32_t, std::uint32_t> lengths[] = {{56, 56}, {56, 56}, {56, 40}, {3, 3}, {0, 0}};
    for (std::size_t i = 0; i < std::size(lengths); ++i) {
        EXPECT_EQ(reading.frames.at(i).wire_len, lengths[i].first) << i;
        EXPECT_EQ(reading.frames.at(i).cap_len, lengths[i].second) << i;
    }
    const auto undeclared = read_all(join({pcap({.network = 0x20000001}), pcap_record(1, 0, 60, 60)}));
    EXPECT_EQ(undeclared.frames.at(0).wire_len, 60U);
}

TEST(Pcap, OldVersionsHaveSwappedLengths) {
    const auto v22 =
        read_all(join({pcap({.minor = 2}), Writer().u32(1).u32(0).u32(70).u32(60).fill(60, 1).bytes}));
    EXPECT_EQ(v22.frames, (std::vector<Frame>{{1, 1'000'000'000, 70, 60, 1, 0, 0}}));
    const auto v23 =
        read_all(join({pcap({.minor = 3}), Writer().u32(1).u32(0).u32(70).u32(60).fill(60, 1).bytes,
                       pcap_record(2, 0, 60, 70)}));
    EXPECT_EQ(v23.frames.at(0).cap_len, 60U);
    EXPECT_EQ(v23.frames.at(1).cap_len, 60U);
    const auto dgux = read_all(
        join({pcap({.major = 543, .minor = 0}), Writer().u32(1).u32(0).u32(70).u32(60).fill(60, 1).bytes}));
    EXPECT_EQ(dgux.frames.at(0).wire_len, 70U);
}

std::vector<std::byte> patched_record(std::uint32_t seconds, std::size_t extra_bytes) {
    return Writer()
        .u32(seconds)
        .u32(5)
        .u32(60)
        .u32(60)
        .u32(2)
        .u16(0x800)
        .u8(0)
        .u8(0)
        .fill(extra_bytes, 0)
        .fill(60, 0x11)
        .bytes;
}

TEST(Pcap, PatchedRecordHeaders) {
    for (const std::uint32_t magic : {0xa1b2cd34U, 0xa1b2c3d4U}) {
        const auto reading =
            read_all(join({pcap({.magic = magic}), patched_record(1, 0), patched_record(2, 0)}));
        EXPECT_EQ(reading.frames.size(), 2U);
        EXPECT_EQ(reading.frames.at(1).ts_ns, 2'000'005'000);
        EXPECT_EQ(reading.info.end, FileEnd::clean);
    }
    const auto smp =
        read_all(join({pcap({.magic = 0xa1b2cd34}), patched_record(1, 4), patched_record(2, 4)}));
    EXPECT_EQ(smp.frames.size(), 2U);
    const auto nokia = [](std::uint32_t seconds) {
        return Writer().u32(seconds).u32(5).u32(60).u32(60).u32(0x9fbfb601).fill(60, 0x11).bytes;
    };
    EXPECT_EQ(read_all(join({pcap(), nokia(1), nokia(2)})).info.format, "pcap_nokia");
}

TEST(Pcap, DamageInTheFirstRecordsDoesNotChangeTheFormat) {
    // Records of zeros fit every variant.
    const auto zeros = [](std::uint64_t captured) {
        return Writer().u32(1).u32(5).u32(captured).u32(captured).fill(60, 0).bytes;
    };
    const auto reading = read_all(join({pcap(), zeros(60), zeros(300000)}));
    EXPECT_EQ(reading.frames.size(), 1U);
    EXPECT_EQ(reading.info.format, "pcap");
    EXPECT_EQ(reading.info.end, FileEnd::bad_caplen);
}

TEST(Pcap, IxiaHeaderHasFourAdditionalBytes) {
    for (const std::uint32_t magic : {0x1c0001acU, 0x1c0001abU}) {
        const auto reading =
            read_all(join({pcap({.magic = magic}), Writer().u32(99).bytes, pcap_record(1, 5, 60, 60)}));
        EXPECT_EQ(reading.frames.at(0).ts_ns, 1'000'000'000 + (magic == 0x1c0001ac ? 5 : 5000));
    }
}

TEST(Pcap, PseudoHeaderIsNotPartOfTheFrame) {
    const auto reading =
        read_all(join({pcap({.network = 123}), pcap_record(1, 0, 60, 64), pcap_record(1, 0, 2, 2)}));
    EXPECT_EQ(reading.frames, (std::vector<Frame>{{1, 1'000'000'000, 60, 56, 123, 0, 4}}));
    EXPECT_EQ(reading.info.end, FileEnd::bad_pseudo_header);
}

}  // namespace
}  // namespace acapella::test
