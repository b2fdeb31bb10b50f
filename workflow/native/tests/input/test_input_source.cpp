#include <fcntl.h>
#include <gtest/gtest.h>
#include <lz4frame.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "input/capture_bytes.hpp"

namespace acapella::test {
namespace {

using input::ByteSource;
using input::Compression;
using input::FileEnd;

std::vector<std::byte> compress(Compression compression, const std::vector<std::byte>& plain) {
    std::vector<std::byte> packed(plain.size() + (std::size_t{1} << 20U));
    std::size_t size = 0;
    if (compression == Compression::gzip) {
        z_stream stream{};
        deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
        stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(plain.data()));
        stream.avail_in = static_cast<uInt>(plain.size());
        stream.next_out = reinterpret_cast<Bytef*>(packed.data());
        stream.avail_out = static_cast<uInt>(packed.size());
        EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
        size = stream.total_out;
        deflateEnd(&stream);
    } else if (compression == Compression::zstd) {
        ZSTD_CCtx* context = ZSTD_createCCtx();
        ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);  // like the zstd program
        size = ZSTD_compress2(context, packed.data(), packed.size(), plain.data(), plain.size());
        ZSTD_freeCCtx(context);
    } else {
        LZ4F_preferences_t preferences{};
        preferences.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled;  // like the lz4 program
        size = LZ4F_compressFrame(packed.data(), packed.size(), plain.data(), plain.size(), &preferences);
    }
    packed.resize(size);
    return packed;
}

std::vector<std::byte> numbered_bytes(std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 2654435761U) >> 13U);
    return bytes;
}

// A pipe that a thread fills with bytes, in pieces of 1 to `longest` bytes.
class FilledPipe {
  public:
    FilledPipe(const std::vector<std::byte>& bytes, std::size_t longest) {
        EXPECT_EQ(::pipe(ends_.data()), 0);
        writer_ = std::thread([this, &bytes, longest] {
            for (std::size_t at = 0; at < bytes.size();) {
                const std::size_t size = std::min(1 + at % longest, bytes.size() - at);
                if (::write(ends_[1], bytes.data() + at, size) != static_cast<ssize_t>(size)) break;
                at += size;
            }
            ::close(ends_[1]);
        });
    }
    FilledPipe(const FilledPipe&) = delete;
    FilledPipe& operator=(const FilledPipe&) = delete;
    ~FilledPipe() {
        writer_.join();
        ::close(ends_[0]);
    }
    [[nodiscard]] int reading() const { return ends_[0]; }

  private:
    std::array<int, 2> ends_{};
    std::thread writer_;
};

// Returns several megabytes that do not compress well.
std::vector<std::byte> long_capture(std::size_t frames) {
    Writer out;
    out.add(pcap());
    for (std::size_t i = 0; i < frames; ++i) {
        const std::size_t size = 20 + i * 7919 % 1400;
        out.u32(i).u32(i % 1'000'000).u32(size).u32(1514);
        for (std::size_t k = 0; k < size; ++k) {
            out.u8(static_cast<unsigned>((i * 31 + k * k) & 0xff));
        }
    }
    return out.bytes;
}

constexpr std::array kCompressions{Compression::gzip, Compression::zstd, Compression::lz4};

TEST(ByteSource, CompressedCapturesReadLikePlainOnes) {
    const auto plain = long_capture(5000);
    const auto expected = read_all(plain);
    EXPECT_EQ(expected.frames.size(), 5000U);
    for (const Compression compression : kCompressions) {
        const auto reading = read_all(compress(compression, plain));
        EXPECT_EQ(reading.frames, expected.frames) << name_of(compression);
        EXPECT_EQ(reading.info.end, FileEnd::clean);
        EXPECT_EQ(reading.info.compression, name_of(compression));
    }
}

TEST(ByteSource, ConcatenatedMembersAndFramesAreOneCapture) {
    const auto head = join({pcap(), pcap_record(1, 0, 60, 60)});
    const auto tail = pcap_record(2, 0, 60, 60);
    for (const Compression compression : kCompressions) {
        const auto reading = read_all(join({compress(compression, head), compress(compression, tail)}));
        EXPECT_EQ(reading.frames.size(), 2U) << name_of(compression);
        EXPECT_EQ(reading.info.end, FileEnd::clean) << reading.info.end_detail;
    }
}

TEST(ByteSource, TruncatedCompressedCaptureKeepsDecompressedFrames) {
    const auto plain = long_capture(5000);
    for (const Compression compression : kCompressions) {
        auto packed = compress(compression, plain);
        packed.resize(packed.size() / 2);
        const auto reading = read_all(packed);
        EXPECT_GT(reading.frames.size(), 1000U) << name_of(compression);
        EXPECT_LT(reading.frames.size(), 5000U);
        EXPECT_EQ(reading.info.end, FileEnd::cut_compressed) << reading.info.end_detail;
    }
}

TEST(ByteSource, DamagedCompressedCaptureKeepsDecompressedFrames) {
    const auto plain = join({pcap(), pcap_record(1, 0, 60, 60)});
    auto bad_crc = compress(Compression::gzip, plain);
    bad_crc[bad_crc.size() - 5] ^= std::byte{0xff};
    auto reading = read_all(bad_crc);
    EXPECT_EQ(reading.frames.size(), 1U);
    EXPECT_EQ(reading.info.end, FileEnd::bad_compression);
    for (const Compression compression : kCompressions) {
        reading = read_all(join({compress(compression, plain), Writer().fill(40, 'g').bytes}));
        EXPECT_EQ(reading.frames.size(), 1U);
        EXPECT_EQ(reading.info.end, FileEnd::trailing_bytes) << name_of(compression);
    }
}

TEST(ByteSource, OneWrongByteLosesOneBlockAndIsReported) {
    auto plain = long_capture(20000);
    std::uint32_t noise = 1;  // so that each compressor writes many blocks
    for (std::size_t record = 24; record + 16 < plain.size();) {
        std::uint32_t length = 0;
        std::memcpy(&length, &plain[record + 8], sizeof length);
        for (std::size_t at = record + 16; at < record + 16 + length; ++at)
            plain[at] = static_cast<std::byte>((noise = noise * 1664525U + 1013904223U) >> 24U);
        record += 16 + length;
    }
    ASSERT_EQ(read_all(plain).frames.size(), 20000U);
    for (const Compression compression : {Compression::zstd, Compression::lz4}) {
        auto packed = compress(compression, plain);
        packed[packed.size() - 3] ^= std::byte{0xff};
        const auto reading = read_all(packed);
        EXPECT_GT(reading.frames.size(), 10000U) << name_of(compression);
        EXPECT_EQ(reading.info.end, FileEnd::bad_compression) << name_of(compression);
    }
}

// Returns the decompressed size with limits, and the fault.
std::pair<std::uint64_t, std::string> read_limited(const std::vector<std::byte>& packed,
                                                   const input::DecompressionLimits& limits) {
    const auto source = ByteSource::from_memory(packed, "memory", limits);
    const std::uint64_t bytes = source->skip(UINT64_MAX);
    return {bytes, source->fault().kind};
}

TEST(ByteSource, DecompressionEndsAtTheTotalLimit) {
    const auto plain = long_capture(5000);
    for (const Compression compression : kCompressions) {
        const auto packed = compress(compression, plain);
        for (const std::uint64_t max_bytes :
             {std::uint64_t{1}, std::uint64_t{1000}, std::uint64_t{plain.size() - 1}}) {
            const auto [bytes, fault] = read_limited(packed, {.bytes = max_bytes});
            EXPECT_EQ(bytes, max_bytes) << name_of(compression);
            EXPECT_EQ(fault, "decompression_limit");
        }
        const auto [bytes, fault] = read_limited(packed, {.bytes = plain.size()});
        EXPECT_EQ(bytes, plain.size()) << name_of(compression);
        EXPECT_EQ(fault, "");
    }
}

TEST(ByteSource, DecompressionEndsAtTheRatioLimit) {
    constexpr std::uint64_t kFree = input::DecompressionLimits::kFreeOfRatio;
    const std::vector<std::byte> zeros(kFree + (std::size_t{8} << 20U));
    const std::vector<std::byte> free_zeros(kFree);
    for (const Compression compression : kCompressions) {
        const auto packed = compress(compression, zeros);
        const auto [bytes, fault] = read_limited(packed, {.ratio = 10});
        EXPECT_EQ(fault, "decompression_limit") << name_of(compression);
        EXPECT_GE(bytes, kFree - (std::uint64_t{1} << 20U));
        EXPECT_LE(bytes, kFree + (std::uint64_t{1} << 20U));
        EXPECT_EQ(read_limited(compress(compression, free_zeros), {.ratio = 10}).second, "");
    }
    EXPECT_EQ(read_limited(compress(Compression::gzip, zeros), {.ratio = 2000}).second, "");
}

TEST(ByteSource, CaptureBeyondALimitKeepsEarlierFrames) {
    const auto plain = long_capture(5000);
    for (const Compression compression : kCompressions) {
        const auto packed = compress(compression, plain);
        const auto source = ByteSource::from_memory(packed, "memory", {.bytes = plain.size() / 2});
        const auto reading = read_source(*source);
        EXPECT_EQ(reading.info.end, FileEnd::decompression_limit) << name_of(compression);
        EXPECT_EQ(reading.frames.size(),
                  read_all({plain.begin(), plain.begin() + static_cast<std::ptrdiff_t>(plain.size() / 2)})
                      .frames.size());
    }
}

TEST(ByteSource, ZerosAfterTheLastGzipMemberArePadding) {
    const auto packed = compress(Compression::gzip, join({pcap(), pcap_record(1, 0, 60, 60)}));
    EXPECT_EQ(read_all(join({packed, Writer().fill(1000, 0).bytes})).info.end, FileEnd::clean);
}

TEST(ByteSource, EmptyAndDamagedCompressedFilesAreRejected) {
    for (const Compression compression : kCompressions) {
        EXPECT_EQ(refusal(compress(compression, {})), "empty_file") << name_of(compression);
        auto packed = compress(compression, long_capture(3));
        packed.resize(9);
        EXPECT_EQ(refusal(packed), "cut_compressed") << name_of(compression);
    }
    EXPECT_EQ(refusal(Writer().u8(0x1f).u8(0x8b).fill(50, 0xff).bytes), "bad_compression");
    EXPECT_EQ(refusal(Writer().u32(0xfd2fb528).fill(50, 0xff).bytes), "bad_compression");
    EXPECT_EQ(refusal(Writer().u32(0x184d2204).fill(50, 0xff).bytes), "bad_compression");
}

TEST(ByteSource, ViewsAreContiguousAcrossTheBufferAndGrowIt) {
    const std::vector<std::byte> bytes = numbered_bytes(std::size_t{5} << 20U);
    const auto source = ByteSource::from_memory(bytes, "memory");
    std::size_t at = 0;
    for (const std::size_t size : {1U, 1000000U, 99999U, 3U << 20U, 7U, 900000U}) {
        const Bytes view = source->view(size);
        ASSERT_EQ(view.size(), size);
        EXPECT_TRUE(std::equal(view.begin(), view.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at)));
        EXPECT_EQ(source->skip(size), size);
        at += size;
        EXPECT_EQ(source->offset(), at);
    }
    EXPECT_EQ(source->view(1U << 20U).size(), bytes.size() - at);
    EXPECT_EQ(source->skip(~std::uint64_t{0}), bytes.size() - at);
    EXPECT_TRUE(source->view(1).empty());
}

TEST(ByteSource, PipeWithSingleBytes) {
    const auto file = join({pcap(), pcap_record(1, 0, 60, 60), pcap_record(2, 0, 60, 60)});
    const FilledPipe pipe(file, 1);
    const auto source = ByteSource::from_descriptor(pipe.reading(), "-");
    const auto reading = read_source(*source);
    EXPECT_EQ(reading.frames.size(), 2U);
    EXPECT_EQ(reading.info.end, FileEnd::clean);
}

TEST(ByteSource, FileTruncatedWhileReadDoesNotCrash) {
    const auto path =
        std::filesystem::temp_directory_path() / ("acapella-shrinks-" + std::to_string(::getpid()));
    const auto file = long_capture(5000);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
    const auto source = ByteSource::open(path);
    const auto reader = input::open_capture(*source);
    Record record;
    ASSERT_TRUE(reader->next(record));
    std::filesystem::resize_file(path, file.size() / 2);
    std::uint64_t frames = 1;
    while (reader->next(record)) {
        ++frames;
    }
    std::filesystem::remove(path);
    EXPECT_LT(frames, 5000U);
    EXPECT_NE(reader->info().end, FileEnd::clean);
}

TEST(ByteSource, UnreadablePathsAreRejected) {
    const auto kind_of = [](const std::string& path) {
        try {
            ByteSource::open(path);
        } catch (const input::InputError& error) {
            EXPECT_NE(std::string(error.what()).find(path), std::string::npos);
            return error.kind();
        }
        return std::string();
    };
    EXPECT_EQ(kind_of("/nonexistent/capture.pcap"), "cannot_open");
    EXPECT_EQ(kind_of(std::filesystem::temp_directory_path()), "cannot_open");
}

TEST(ByteSource, ReadErrorIsNotTheEndOfTheFile) {
    const int write_only = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    const auto source = ByteSource::from_descriptor(write_only, "device");
    try {
        input::open_capture(*source);
        ADD_FAILURE();
    } catch (const input::InputError& error) {
        EXPECT_EQ(error.kind(), "read_error");
        EXPECT_EQ(error.number(), EBADF);
    }
    ::close(write_only);
}

// Reads until buffer_changed() is true and only then compares the views. Returns how often the buffer
// changed.
std::size_t read_pinned(ByteSource& source, const std::vector<std::byte>& expected, std::size_t longest) {
    std::size_t at = 0;
    std::size_t buffer_changes = 0;
    while (at < expected.size()) {
        source.pin_views();
        std::vector<std::pair<std::size_t, Bytes>> pieces;
        while (!source.buffer_changed() && at < expected.size() && pieces.size() < 64) {
            const Bytes piece = source.view(1 + at * 7919 % longest);
            pieces.emplace_back(at, piece);
            source.skip(piece.size());
            at += piece.size();
        }
        buffer_changes += source.buffer_changed() ? 1 : 0;
        for (const auto& [from, piece] : pieces)
            EXPECT_EQ(std::memcmp(piece.data(), expected.data() + from, piece.size()), 0) << "at " << from;
    }
    EXPECT_EQ(source.offset(), expected.size());
    EXPECT_TRUE(source.view(1).empty());
    return buffer_changes;
}

TEST(ByteSource, PinnedViewsStayValid) {
    const std::vector<std::byte> bytes = numbered_bytes(std::size_t{5} << 20U);
    for (const std::size_t longest : {1'000U, 100'000U, 1'000'000U}) {  // below and above a buffer
        const auto source = ByteSource::from_memory(bytes, "bytes");
        EXPECT_GT(read_pinned(*source, bytes, longest), 3U) << longest;
    }
}

TEST(ByteSource, PinnedViewsOfAPipeStayValid) {
    const std::vector<std::byte> bytes = numbered_bytes(std::size_t{1} << 20U);
    const FilledPipe pipe(bytes, 701);
    const auto source = ByteSource::from_descriptor(pipe.reading(), "pipe");
    EXPECT_GT(read_pinned(*source, bytes, 5'000), 3U);
}

}  // namespace
}  // namespace acapella::test
