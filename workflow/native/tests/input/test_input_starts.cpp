// Decompression from any of the starting points of a stream (ByteStream::Start) yields the rest of the
// stream.
#include <gtest/gtest.h>
#include <lz4frame.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "input/decoder.hpp"

namespace acapella::test {
namespace {

using input::ByteStream;
using input::Compression;
using input::DecompressionLimits;

// Returns bytes, most of which repeat bytes up to 60,000 positions before them.
std::vector<std::byte> repetitive(std::size_t size) {
    std::vector<std::byte> bytes(size);
    std::uint32_t noise = 1;
    for (std::size_t at = 0; at < size;) {
        noise = noise * 1664525U + 1013904223U;
        const std::size_t length = std::min<std::size_t>(size - at, 16 + (noise >> 24U));
        const std::size_t back = 1 + (noise >> 8U) % 60'000;
        for (std::size_t i = 0; i < length; ++i, ++at)
            bytes[at] = at < 60'000 || i < 8 ? static_cast<std::byte>((noise = noise * 1664525U + 1U) >> 24U)
                                             : bytes[at - back];
    }
    return bytes;
}

std::vector<std::byte> lz4(const std::vector<std::byte>& plain, const LZ4F_frameInfo_t& frame) {
    LZ4F_preferences_t preferences{};
    preferences.frameInfo = frame;
    std::vector<std::byte> packed(LZ4F_compressFrameBound(plain.size(), &preferences));
    packed.resize(LZ4F_compressFrame(packed.data(), packed.size(), plain.data(), plain.size(), &preferences));
    return packed;
}

std::vector<std::byte> read_all(ByteStream& stream, std::size_t room) {
    std::vector<std::byte> bytes;
    std::vector<std::byte> buffer(room);
    while (const std::size_t size = stream.read(buffer.data(), buffer.size()))
        bytes.insert(bytes.end(), buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(size));
    return bytes;
}

bool is_inside(const ByteStream::Start& start) { return start.inside; }

// Returns the starts of a stream, after comparing the bytes after each of them with `plain`.
std::vector<ByteStream::Start> checked_starts(const std::vector<std::byte>& packed,
                                              const std::vector<std::byte>& plain, std::size_t room) {
    const Bytes bytes(packed);
    const auto stream =
        input::decoder(Compression::lz4, input::memory_stream(bytes.subspan(4)), bytes.first(4), {});
    EXPECT_TRUE(read_all(*stream, room) == plain);
    EXPECT_EQ(stream->fault().kind, "");
    for (const ByteStream::Start& start : stream->starts()) {
        const auto rest = input::decoder_from(
            Compression::lz4, input::memory_stream(bytes.subspan(static_cast<std::size_t>(start.compressed))),
            start, {});
        const auto expected = Bytes(plain).subspan(static_cast<std::size_t>(start.decompressed));
        const auto found = read_all(*rest, room);
        EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin(), expected.end()))
            << start.decompressed << ": " << found.size() << " bytes instead of " << expected.size();
        EXPECT_EQ(rest->fault().kind, "") << rest->fault().what;
    }
    return stream->starts();
}

TEST(Starts, InsideLz4Frames) {
    const auto plain = repetitive(std::size_t{17} << 20U);
    auto twice = plain;
    twice.insert(twice.end(), plain.begin(), plain.end());
    const std::array<unsigned char, 10> skippable{0x53, 0x2a, 0x4d, 0x18, 2};
    for (const auto mode : {LZ4F_blockLinked, LZ4F_blockIndependent})
        for (const bool long_header : {false, true}) {
            LZ4F_frameInfo_t frame{};
            frame.blockMode = mode;
            frame.blockSizeID = long_header == (mode == LZ4F_blockLinked) ? LZ4F_max4MB : LZ4F_max64KB;
            frame.contentChecksumFlag = long_header ? LZ4F_contentChecksumEnabled : LZ4F_noContentChecksum;
            frame.blockChecksumFlag = long_header && mode == LZ4F_blockIndependent ? LZ4F_blockChecksumEnabled
                                                                                   : LZ4F_noBlockChecksum;
            frame.contentSize = long_header ? plain.size() : 0;
            SCOPED_TRACE(std::to_string(mode) + (long_header ? " long" : " short"));
            auto packed = lz4(plain, frame);
            const auto first_copy = packed;
            for (const unsigned char byte : skippable) packed.push_back(std::byte{byte});
            packed.insert(packed.end(), first_copy.begin(), first_copy.end());
            const auto starts = checked_starts(packed, twice, long_header ? 100'000 : std::size_t{1} << 20U);
            EXPECT_EQ(std::count_if(starts.begin(), starts.end(), is_inside), 2);
            EXPECT_EQ(std::any_of(starts.begin(), starts.end(),
                                  [](const ByteStream::Start& start) { return !start.window.empty(); }),
                      mode == LZ4F_blockLinked);
        }
}

TEST(Starts, NoneInsideLinkedBlocksWithChecksums) {
    LZ4F_frameInfo_t frame{};
    frame.blockChecksumFlag = LZ4F_blockChecksumEnabled;
    const auto plain = repetitive(std::size_t{17} << 20U);
    const auto starts = checked_starts(lz4(plain, frame), plain, 1U << 20U);
    EXPECT_TRUE(std::none_of(starts.begin(), starts.end(), is_inside));
}

TEST(Starts, InvalidStartsEndInAFault) {
    const std::vector<std::byte> bytes(100, std::byte{7});
    for (const std::string& window : {std::string(), std::string(40, '\xff')})
        for (unsigned state = 0; state < 256; ++state) {
            ByteStream::Start start;
            start.inside = true;
            start.state = static_cast<std::uint8_t>(state);
            start.window = window;
            for (const Compression compression : {Compression::gzip, Compression::lz4}) {
                const auto stream = input::decoder_from(compression, input::memory_stream(bytes), start, {});
                read_all(*stream, 1000);
                EXPECT_NE(stream->fault().kind, "") << state;
            }
        }
}

}  // namespace
}  // namespace acapella::test
