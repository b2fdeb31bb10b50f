// Byte streams from a descriptor, from memory, or from gzip, zstd or lz4 data in such a stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frame/record.hpp"

namespace acapella::input {

// A stream of bytes. After read() has returned 0, fault() describes an incomplete stream.
class ByteStream {
  public:
    struct Fault {
        std::string kind;  // name of a FileEnd, or read_error; empty: none
        std::string what;
        int number = 0;  // errno of a read_error
    };

    ByteStream() = default;
    ByteStream(const ByteStream&) = delete;
    ByteStream& operator=(const ByteStream&) = delete;
    virtual ~ByteStream() = default;

    // Reads at most `room` bytes (> 0) and returns their number; 0 at the end. Never throws.
    virtual std::size_t read(std::byte* into, std::size_t room) = 0;

    [[nodiscard]] const Fault& fault() const { return fault_; }

    // A place where decompression can begin: the start of a gzip member or of a zstd or lz4 frame, or of a
    // block inside a gzip member or an lz4 frame.
    struct Start {
        std::uint64_t compressed = 0;  // offset of the first byte
        std::uint64_t decompressed = 0;
        bool inside = false;
        // Inside gzip: the block begins with this number of bits of the first byte, or, if it is 0, with the
        // whole byte. Inside lz4: Lz4Frame.
        std::uint8_t state = 0;
        std::string window = {};  // inside: preceding decompressed bytes, compressed with the same library
    };
    // Returns the starts so far, at least kBetweenStarts decompressed bytes apart, without the one at offset
    // 0.
    [[nodiscard]] const std::vector<Start>& starts() const { return starts_; }
    static constexpr std::uint64_t kBetweenStarts = std::uint64_t{512} << 10;

    // Returns the number of bytes of the file or pipe, before decompression; none if its end was not reached.
    [[nodiscard]] virtual std::optional<std::uint64_t> file_bytes() const { return std::nullopt; }

    // Removes every second start inside a member or frame, beginning with the first one. Returns the number
    // of those left.
    static std::size_t drop_every_second_window(std::vector<Start>& starts) {
        std::size_t windows = 0;
        std::erase_if(starts, [&](const Start& start) { return start.inside && windows++ % 2 == 0; });
        return windows / 2;
    }

  protected:
    std::size_t fail(std::string kind, std::string what, int number = 0) {
        if (fault_.kind.empty()) {
            fault_ = {std::move(kind), std::move(what), number};
        }
        return 0;
    }

    Fault fault_;
    std::vector<Start> starts_;
};

// Reads a descriptor. Closes it if `owns` is true.
std::unique_ptr<ByteStream> descriptor_stream(int descriptor, bool owns);

// The bytes must outlive the stream.
std::unique_ptr<ByteStream> memory_stream(Bytes bytes);

enum class Compression { none, gzip, zstd, lz4 };

inline constexpr std::size_t kMagicBytes = 4;

// Detects the compression from the first bytes of a file.
Compression detect_compression(Bytes head);

const char* name_of(Compression compression);

// Returns true if this build of the core has a decoder, which requires the library for the compression.
bool is_supported(Compression compression);

// Limits of decompression. A stream that exceeds one ends with the fault decompression_limit.
struct DecompressionLimits {
    // Ratios of zstd are up to 32,768 for runs of one byte and about 3,000 for repeated full-size TSO frames;
    // those of gzip are up to 1,032, those of lz4 up to 255.
    std::uint32_t ratio = 10'000;                   // decompressed bytes per compressed byte
    std::uint64_t bytes = std::uint64_t{1} << 40U;  // decompressed bytes in total
    // The ratio is checked only beyond this number of bytes, because a small file may consist of zeros.
    static constexpr std::uint64_t kFreeOfRatio = std::uint64_t{16} << 20U;
};

// Decompresses `raw`, which begins at a start. The limits apply to the bytes after the start.
std::unique_ptr<ByteStream> decoder_from(Compression compression, std::unique_ptr<ByteStream> raw,
                                         const ByteStream::Start& start, const DecompressionLimits& limits);

// Decompresses `raw`; `head` contains its bytes that were already read. Concatenated members and frames form
// one stream. The compression must be supported.
std::unique_ptr<ByteStream> decoder(Compression compression, std::unique_ptr<ByteStream> raw, Bytes head,
                                    const DecompressionLimits& limits);

}  // namespace acapella::input
