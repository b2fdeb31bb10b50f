// The positions of a capture's frames, which a digest records so that single frames can be read without those
// before them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "input/capture_reader.hpp"
#include "input/positions/piece_sum.hpp"

namespace acapella::input {

// All offsets are in the decompressed file, which consists of pieces of equal size.
struct Positions {
    struct Piece {
        std::uint64_t frame = 0;   // the first frame whose record begins in this piece; 0: there is none
        std::uint64_t offset = 0;  // of that record
    };
    // A block that describes frames (BlockObserver).
    struct Block {
        std::uint64_t offset = 0;
        std::uint64_t size = 0;
        bool first = false;
    };

    std::size_t piece_bytes = kPiece;         // a power of two; the last piece may be shorter
    std::optional<std::uint64_t> file_bytes;  // size of the file as stored, if known
    std::uint64_t bytes = 0;                  // size of the decompressed file
    std::uint64_t frames = 0;
    // The block of a pcap contains its first frames, from which the reader determines the variant of the
    // format.
    std::uint64_t leading_frames = 0;
    std::vector<ByteStream::Start> starts;
    std::vector<Block> blocks;
    std::vector<Piece> pieces;
    std::vector<std::uint32_t> sums;  // by piece

    // Returns the largest number of decompressed bytes between two places where decompression can begin, or
    // between the last one and the end.
    [[nodiscard]] std::uint64_t longest_without_start() const;
};

// Encodes positions, with integers of variable length (LEB128). For typical captures, less than 0.03 bytes
// per frame.
std::string encode(const Positions& positions);
// Throws InputError (bad_positions) with `name` if the bytes are not the result of encode().
Positions decode_positions(Bytes encoded, const std::string& name);

class PositionsBuilder final : public BlockObserver {
  public:
    // Call before any method of the source is called, and open the capture with this observer. `piece_bytes`:
    // a power of two from kSmallestPiece to kLargestPiece.
    explicit PositionsBuilder(ByteSource& source, std::size_t piece_bytes = kPiece);

    void on_block(std::uint64_t offset, Bytes bytes, bool first) override;

    // Adds frame number `frame`, from 1, whose record is at `offset`.
    void add(std::uint64_t frame, std::uint64_t offset) {
        if (offset >= next_piece_ || frame == kLeadingFrames + 1) [[unlikely]]
            note(frame, offset);
    }

    // Call after the last frame. Returns the encoded positions, or an empty text if their base64 form, which
    // is stored in the acap, would exceed kFreeBytes plus `bytes_per_frame` for each frame.
    std::string finish(const ByteSource& source, std::uint64_t frames,
                       std::uint64_t bytes_per_frame = kBytesPerFrame);

    static constexpr std::uint64_t kLeadingFrames = 3;  // read by PcapReader::fits_variant()
    static constexpr std::uint64_t kBytesPerFrame = 2;
    static constexpr std::size_t kFreeBytes = 64;  // allowed for a capture of few frames

  private:
    void note(std::uint64_t frame, std::uint64_t offset);

    PieceSums sums_;
    Positions positions_;
    std::uint64_t next_piece_ = 0;
    bool pcap_ = false;
};

}  // namespace acapella::input
