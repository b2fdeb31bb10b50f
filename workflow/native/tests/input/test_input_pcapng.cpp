#include <gtest/gtest.h>

#include <limits>

#include "input/capture_bytes.hpp"
#include "input/pcapng_reader.hpp"

namespace acapella::test {
namespace {

using input::FileEnd;
using input::Interface;

constexpr std::uint64_t kSecond = 1'000'000;  // in the default unit

TEST(Pcapng, FramesOfAnInterface) {
    const auto reading =
        read_all(join({section(), interface(1, 96), packet(kSecond, 60, 1500), packet(2 * kSecond, 61)}));
    EXPECT_EQ(reading.frames, (std::vector<Frame>{{1, 1'000'000'000, 1500, 60, 1, 0, 0},
                                                  {2, 2'000'000'000, 60, 61, 1, 0, 0}}));
    EXPECT_EQ(reading.info.format, "pcapng");
    EXPECT_EQ(reading.info.snaplen, 96U);
    EXPECT_EQ(reading.info.ts_unit_ns, 1000);
    EXPECT_EQ(reading.info.end, FileEnd::clean);
}

TEST(Pcapng, SectionsHaveTheirOwnByteOrderAndInterfaces) {
    const auto reading = read_all(join({section(), interface(1), interface(113), packet(kSecond, 60, 60, 1),
                                        section(true), interface(101, 0, {}, true),
                                        packet(5 * kSecond, 4, 4, 0, {}, true), section(), packet(kSecond)}));
    EXPECT_EQ(reading.frames, (std::vector<Frame>{{1, 1'000'000'000, 60, 60, 113, 1, 0},
                                                  {2, 5'000'000'000, 4, 4, 101, 2, 0}}));
    EXPECT_EQ(reading.info.link_types, (std::vector<std::uint16_t>{1, 113, 101}));
    EXPECT_EQ(reading.info.end, FileEnd::bad_block) << "the third section has no interface description";
}

std::vector<std::byte> repeated(const std::vector<std::byte>& bytes, std::size_t count) {
    std::vector<std::byte> copies;
    copies.reserve(bytes.size() * count);
    for (std::size_t i = 0; i < count; ++i) copies.insert(copies.end(), bytes.begin(), bytes.end());
    return copies;
}

TEST(Pcapng, InterfacesAreLimitedInAllSectionsTogether) {
    const auto half = join({section(), repeated(interface(1), input::kMaxInterfaces / 2), packet(kSecond)});
    const auto full = join({half, half});
    EXPECT_EQ(read_all(full).info.end, FileEnd::clean);
    EXPECT_EQ(read_all(full).frames.size(), 2U);
    const auto reading = read_all(join({full, interface(1), packet(kSecond)}));
    EXPECT_EQ(reading.info.end, FileEnd::too_many_interfaces);
    EXPECT_EQ(reading.info.unread_bytes, join({interface(1), packet(kSecond)}).size());
    EXPECT_EQ(reading.frames.size(), 2U);
}

TEST(Pcapng, EveryLinkTypeIsListedOnceInTheOrderOfTheFile) {
    Writer out;
    out.add(section());
    for (const unsigned type : {113U, 1U, 65535U, 1U, 0U, 113U, 65535U}) out.add(interface(type));
    EXPECT_EQ(read_all(out.bytes).info.link_types, (std::vector<std::uint16_t>{113, 1, 65535, 0}));
}

TEST(Pcapng, OptionsSetResolutionAndOffset) {
    const auto options =
        join({option(2, Writer().fill(5, 'x').bytes), option(9, Writer().u8(9).bytes),
              option(9, Writer().u8(3).bytes), option(14, Writer().i64(-5).bytes), option(0, {})});
    const auto reading = read_all(join({section(), interface(1, 0, options), packet(7'000'000'123)}));
    EXPECT_EQ(reading.frames.at(0).ts_ns, 2'000'000'123) << "the first if_tsresol applies";
    EXPECT_EQ(reading.info.ts_unit_ns, 1);
}

struct TimeCase {
    std::uint64_t ts;
    std::uint8_t resolution;
    std::int64_t offset_s;
    std::int64_t ns;
    bool out_of_range = false;
};

TEST(Pcapng, TimestampsOfEveryResolution) {
    constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
    constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
    const std::vector<TimeCase> cases{
        {1'700'000'000, 0, 0, 1'700'000'000'000'000'000},
        {1'234'567'891, 3, 0, 1'234'567'891'000'000},
        {1'234'567'891, 6, 0, 1'234'567'891'000},
        {1'234'567'891, 9, 0, 1'234'567'891},
        {0x123456789abcdef1, 10, 0, 131'176'846'746'379'032},
        {1'700'000'000'123'456'789, 12, 0, 1'700'000'000'123'456},
        {kMax, 19, 0, 1'844'674'407},
        {kMax, 28, 0, 1},
        {kMax, 29, 0, 0},
        {kMax, 127, 0, 0},
        {1'234'567'891, 0x80 | 10, 0, 1'205'632'706'054'687},
        {0x123456789abcdef1, 0x80 | 30, 0, 1'221'679'586'417'777'762},
        {0x123456789abcdef1, 0x80 | 32, 0, 305'419'896'604'444'440},
        {kMax, 0x80 | 63, 0, 1'999'999'999},
        {kMax, 0x80 | 127, 0, 0},
        {1'000'000, 6, 5, 6'000'000'000},
        {1'000'000, 6, -5, -4'000'000'000},
        {kMax, 0, 0, kLast, true},
        {0, 6, std::numeric_limits<std::int64_t>::max(), kLast, true},
        {0, 6, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::min(), true},
    };
    for (const TimeCase& test : cases) {
        const Interface interface {
            .tsresol = static_cast<std::uint8_t>(test.resolution & 0x7f),
            .tsresol_binary = (test.resolution & 0x80) != 0, .tsoffset_s = test.offset_s
        };
        bool out_of_range = !test.out_of_range;
        EXPECT_EQ(to_ns(test.ts, interface, out_of_range), test.ns) << test.ts << " " << int{test.resolution};
        EXPECT_EQ(out_of_range, test.out_of_range);
    }
}

TEST(Pcapng, TimestampOutOfRangeIsCounted) {
    const auto reading = read_all(
        join({section(), interface(1, 0, option(9, Writer().u8(0).bytes)), packet(1ULL << 62U), packet(1)}));
    EXPECT_EQ(reading.info.ts_out_of_range, 1U);
    EXPECT_EQ(reading.frames.at(1).ts_ns, 1'000'000'000);
}

TEST(Pcapng, SimplePacketHasNoTimeAndTheInterfacesSnapLength) {
    const auto spb = block(3, Writer().u32(60).fill(40, 1).bytes);
    const auto reading = read_all(join({section(), interface(1, 40), spb}));
    EXPECT_EQ(reading.frames, (std::vector<Frame>{{1, 0, 60, 40, 1, 0, 0}}));
    EXPECT_EQ(reading.info.untimed, 1U);
    EXPECT_EQ(reading.info.longer_than_snaplen, 0U);
    EXPECT_EQ(read_all(join({section(), interface(1), spb})).info.end, FileEnd::bad_block);
    EXPECT_EQ(read_all(join({section(), spb})).info.end, FileEnd::bad_block);
}

TEST(Pcapng, ObsoletePacketBlock) {
    const auto pb = block(2, Writer().u16(0).u16(3).u32(0).u32(kSecond).u32(60).u32(64).fill(60, 1).bytes);
    const auto reading = read_all(join({section(), interface(), pb}));
    EXPECT_EQ(reading.frames, (std::vector<Frame>{{1, 1'000'000'000, 64, 60, 1, 0, 0}}));
}

TEST(Pcapng, BlocksWithoutFramesAreSkipped) {
    const auto statistics = block(5, Writer().fill(12, 0).bytes);
    const auto secrets = block(10, Writer().u32(0x544c534b).u32(4).u32(7).bytes);
    const auto custom = block(0xbad, Writer().u32(12345).fill(8, 2).bytes);
    const auto unknown = block(0x7777, Writer().fill(3U << 20U, 0).bytes);
    const auto reading =
        read_all(join({section(), statistics, interface(), packet(1), secrets, custom, unknown, packet(2)}));
    EXPECT_EQ(reading.frames.size(), 2U);
    EXPECT_EQ(reading.info.blocks_not_frames, 1U) << "tshark numbers a custom block as a frame";
    EXPECT_EQ(reading.info.end, FileEnd::clean);
}

TEST(Pcapng, LengthWithoutPaddingIsAccepted) {
    const auto unpadded = Writer().u32(0x7777).u32(17).fill(8, 1).u32(17).bytes;
    const auto reading = read_all(join({section(), interface(), unpadded, packet(1)}));
    EXPECT_EQ(reading.frames.size(), 1U);
    EXPECT_EQ(reading.info.end, FileEnd::clean);
}

std::vector<std::byte> with_fault(const std::vector<std::byte>& bad) {
    return join({section(), interface(), packet(1), bad, packet(2)});
}

TEST(Pcapng, EveryFaultKeepsEarlierFramesAndHasAName) {
    auto other_trailer = packet(2);
    other_trailer[other_trailer.size() - 4] = std::byte{200};
    const std::vector<std::pair<std::vector<std::byte>, FileEnd>> cases{
        {packet(2, 60, 60, 1), FileEnd::bad_block},
        {other_trailer, FileEnd::bad_block},
        {Writer().u32(6).u32(8).u32(8).bytes, FileEnd::bad_block},
        {Writer().u32(6).u32(0xffffffff).fill(60, 0).bytes, FileEnd::bad_block},
        {Writer().u32(0x7777).u32(0x7fffffff).fill(60, 0).bytes, FileEnd::bad_block},
        {block(6, Writer().u32(0).bytes), FileEnd::bad_block},
        {block(1, Writer().u32(0).bytes), FileEnd::bad_block},
        {block(5, Writer().u32(0).bytes), FileEnd::bad_block},
        {block(10, Writer().u32(1).u32(400).u32(0).bytes), FileEnd::bad_block},
        {block(6, Writer().u32(0).u32(0).u32(2).u32(100).u32(100).fill(60, 0).bytes), FileEnd::bad_block},
        {block(6, Writer().u32(0).u32(0).u32(2).u32(262145).u32(60).fill(60, 0).bytes), FileEnd::bad_caplen},
        {block(6, Writer().u32(0).u32(0).u32(2).u32(0xfffffff0).u32(60).fill(60, 0).bytes),
         FileEnd::bad_caplen},
        {packet(2, 60, 60, 0, Writer().u16(1).u16(50).u32(0).bytes), FileEnd::bad_block},
        {packet(2, 60, 60, 0, option(2, Writer().u16(7).bytes)), FileEnd::bad_block},
        {interface(1, 0, Writer().u16(2).u16(100).u32(0).bytes), FileEnd::bad_block},
        {section(false, 2, 0), FileEnd::bad_version},
        {block(0x0a0d0d0a, Writer().u32(0x1a2b3c4e).u16(1).u16(0).i64(-1).bytes), FileEnd::bad_block},
    };
    for (std::size_t i = 0; i < cases.size(); ++i) {
        const auto reading = read_all(with_fault(cases[i].first));
        EXPECT_EQ(reading.frames.size(), 1U) << i;
        EXPECT_STREQ(name_of(reading.info.end), name_of(cases[i].second))
            << i << " " << reading.info.end_detail;
        EXPECT_EQ(reading.info.end_offset, join({section(), interface(), packet(1)}).size()) << i;
        EXPECT_FALSE(reading.info.end_detail.empty());
    }
}

// A fault of a skipped block is detected at its end, where the bytes may look like a block.
TEST(Pcapng, NothingIsReadAfterAFault) {
    const auto content = [] {
        Writer out;
        out.u32(0x45).u32(16).u32(0);  // a block whose trailer is the header of the next packet
        return join({section(), interface(1), out.bytes, packet(kSecond)});
    }();
    const auto source = input::ByteSource::from_memory(content, "test");
    const auto reader = input::open_capture(*source);
    Record record;
    EXPECT_FALSE(reader->next(record));
    EXPECT_EQ(reader->info().end, FileEnd::bad_block);
    EXPECT_FALSE(reader->next(record));
    EXPECT_EQ(reader->info().records, 0U);
}

TEST(Pcapng, TruncatedFileKeepsWholeFrames) {
    const auto head = join({section(), interface()});
    const auto file = join({head, packet(1), packet(2, 7)});
    const std::size_t first = head.size() + packet(1).size();
    for (std::size_t cut = head.size(); cut <= file.size(); ++cut) {
        const auto reading = read_all({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(cut)});
        EXPECT_EQ(reading.frames.size(), cut == file.size() ? 2U : cut >= first ? 1U : 0U) << cut;
        const bool clean = cut == head.size() || cut == first || cut == file.size();
        EXPECT_EQ(reading.info.end == FileEnd::clean, clean) << cut;
    }
}

TEST(Pcapng, UnreadableFirstSectionIsRejected) {
    const auto complete = section();
    for (std::size_t cut = 12; cut < complete.size(); ++cut) {
        EXPECT_EQ(refusal({complete.begin(), complete.begin() + static_cast<std::ptrdiff_t>(cut)}),
                  "cut_header")
            << cut;
    }
    EXPECT_EQ(refusal(section(false, 1, 1)), "unsupported_version");
    EXPECT_EQ(refusal(section(false, 1, 2)), "");
}

}  // namespace
}  // namespace acapella::test
