// The positions of the blocks of an lz4 stream, and what is needed to begin decoding at one of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "frame/record.hpp"

namespace acapella::input {

// The properties of a frame that its blocks depend on, in the order of FLG and BD of its header.
struct Lz4Frame {
    bool linked = false;  // blocks refer to the 64 KiB before them
    bool block_checksums = false;
    bool content_checksum = false;  // 4 bytes after the end mark
    unsigned block_size = 4;        // BD: 4 to 7, for 64 KiB to 4 MiB

    // Returns the properties as a number from 1 to 32.
    [[nodiscard]] std::uint8_t pack() const {
        return static_cast<std::uint8_t>(1U + ((linked ? 1U : 0U) | (block_checksums ? 2U : 0U) |
                                               (content_checksum ? 4U : 0U) | (block_size - 4) << 3U));
    }
    static Lz4Frame unpack(std::uint8_t state) {
        const unsigned bits = state - 1U;
        return {(bits & 1U) != 0, (bits & 2U) != 0, (bits & 4U) != 0, 4 + (bits >> 3U & 3U)};
    }
};

// Tracks block boundaries in the consumed bytes of a stream, without decoding them
// (https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md). The library checks the bytes.
class Lz4Blocks {
  public:
    Lz4Blocks() = default;
    // Begins at a block of a frame.
    explicit Lz4Blocks(const Lz4Frame& frame) : frame_(frame) { expect(Part::block_header, 4); }

    // Returns the number of bytes up to the end of the current part, such as a block or its header.
    [[nodiscard]] std::size_t bytes_left() const { return left_; }
    [[nodiscard]] bool at_block() const { return part_ == Part::block_header && size_ == 0; }
    [[nodiscard]] bool in_blocks() const { return part_ == Part::block_header || part_ == Part::block; }
    [[nodiscard]] const Lz4Frame& frame() const { return frame_; }

    // Adds consumed bytes.
    void advance(Bytes bytes) {
        while (!bytes.empty()) {
            const Bytes part = bytes.first(std::min(bytes.size(), left_));
            const std::size_t kept = std::min(part.size(), bytes_.size() - size_);
            std::copy_n(part.begin(), kept, bytes_.begin() + static_cast<std::ptrdiff_t>(size_));
            size_ += kept;
            left_ -= part.size();
            bytes = bytes.subspan(part.size());
            if (left_ == 0) next();
        }
    }

  private:
    enum class Part : std::uint8_t { magic, header, block_header, block, skippable_header, skipped, trailer };

    void expect(Part part, std::size_t bytes) {
        part_ = part;
        left_ = bytes;
        size_ = 0;
    }

    void next() {
        switch (part_) {
            case Part::magic:
                if ((u32(0) & ~0xfU) == kSkippable) return expect(Part::skippable_header, 4);
                return expect(Part::header, 2);
            case Part::header:
                return header();
            case Part::block_header:
                return block_header();
            case Part::skippable_header:
                return u32(0) == 0 ? expect(Part::magic, 4) : expect(Part::skipped, u32(0));
            case Part::block:
                return expect(Part::block_header, 4);
            case Part::skipped:
            case Part::trailer:
                return expect(Part::magic, 4);
        }
    }

    // FLG and BD, then the optional fields and the checksum.
    void header() {
        if (size_ > 2) return expect(Part::block_header, 4);
        const auto flags = std::to_integer<unsigned>(bytes_[0]);
        const auto bd = std::to_integer<unsigned>(bytes_[1]);
        frame_ = {(flags & 0x20U) == 0, (flags & 0x10U) != 0, (flags & 0x04U) != 0, bd >> 4U & 7U};
        left_ = 1 + ((flags & 0x08U) != 0 ? 8 : 0) + ((flags & 0x01U) != 0 ? 4 : 0);
    }

    void block_header() {
        const std::uint32_t size = u32(0) & 0x7fffffffU;
        if (u32(0) != 0) return expect(Part::block, size + (frame_.block_checksums ? 4U : 0U));
        if (frame_.content_checksum) return expect(Part::trailer, 4);
        expect(Part::magic, 4);
    }

    [[nodiscard]] std::uint32_t u32(std::size_t at) const {
        std::uint32_t value = 0;
        for (unsigned byte = 0; byte < 4; ++byte)
            value |= std::to_integer<std::uint32_t>(bytes_[at + byte]) << (8 * byte);
        return value;
    }

    static constexpr std::uint32_t kSkippable = 0x184d2a50;  // through 0x184d2a5f

    Lz4Frame frame_;
    Part part_ = Part::magic;
    std::size_t left_ = 4;
    std::array<std::byte, 15> bytes_{};  // the first bytes of the part; a header has up to 15 from FLG to HC
    std::size_t size_ = 0;               // number of these bytes
};

}  // namespace acapella::input
