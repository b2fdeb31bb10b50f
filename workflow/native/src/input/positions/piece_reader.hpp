// Random access to the decompressed bytes of a capture whose positions are known. All bytes are verified.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "input/positions/positions.hpp"

namespace acapella::input {

class PieceReader {
  public:
    // Opens the capture at `path`. Throws InputError (cannot_open; changed, also if `path` is not a regular
    // file or its compression is not supported). The positions must outlive the reader.
    PieceReader(std::string path, const Positions& positions, const DecompressionLimits& limits);
    PieceReader(const PieceReader&) = delete;
    PieceReader& operator=(const PieceReader&) = delete;
    ~PieceReader();

    // Returns the bytes from `offset` to the end of its piece, valid until the next call. Returns none at the
    // end of the data and if the capture cannot be read or has changed; see fault().
    Bytes at(std::uint64_t offset);
    [[nodiscard]] const ByteStream::Fault& fault() const { return fault_; }

  private:
    struct Loaded {
        std::size_t piece = SIZE_MAX;  // SIZE_MAX: none
        std::vector<std::byte> bytes;
    };

    bool load(std::size_t piece, Loaded& into);
    bool read_plain(std::uint64_t offset, std::byte* into);
    bool read_compressed(std::uint64_t offset, std::byte* into);
    void begin_decoding(std::uint64_t offset);
    std::size_t decode(std::byte* into, std::size_t size);
    bool fail(std::string what, int number = 0);

    std::string path_;
    const Positions& positions_;
    DecompressionLimits limits_;
    int descriptor_;
    Compression compression_ = Compression::none;
    std::unique_ptr<ByteStream> decoder_;
    std::uint64_t decoded_ = 0;  // offset of the next byte of decoder_
    // The last two pieces: the blocks that describe frames are often in one, the frames in the other.
    std::array<Loaded, 2> loaded_;
    std::size_t last_ = 0;  // used last
    ByteStream::Fault fault_;
};

// The concatenation of parts of a capture.
class PartsStream final : public ByteStream {
  public:
    struct Part {
        std::uint64_t offset;
        std::uint64_t size;
    };

    // The reader must outlive the stream.
    PartsStream(PieceReader& reader, std::vector<Part> parts) : reader_(reader), parts_(std::move(parts)) {}

    std::size_t read(std::byte* into, std::size_t room) override;

  private:
    PieceReader& reader_;
    std::vector<Part> parts_;
    std::size_t part_ = 0;
    std::uint64_t done_ = 0;  // bytes of the part that were read
};

}  // namespace acapella::input
