// Access to captured bytes. Every read is checked against the captured length.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "frame/record.hpp"

namespace acapella {

// A cursor has two lengths. `captured` bytes may be read. `reported` is the length on the wire, limited by
// outer length fields. A header that ends after `reported` is malformed; a header that ends only after
// `captured` is truncated. Reads past the captured bytes return 0; call has() first if this matters.
class Cursor {
  public:
    Cursor(Bytes bytes, std::size_t reported)
        : at_(bytes.data()), captured_(std::min(bytes.size(), reported)), reported_(reported) {}

    [[nodiscard]] bool has(std::size_t count) const { return count <= captured_; }
    [[nodiscard]] std::size_t captured() const { return captured_; }
    [[nodiscard]] std::size_t reported() const { return reported_; }
    [[nodiscard]] Bytes rest() const { return {at_, captured_}; }

    [[nodiscard]] std::uint8_t u8(std::size_t offset) const {
        return offset < captured_ ? std::to_integer<std::uint8_t>(at_[offset]) : std::uint8_t{0};
    }
    [[nodiscard]] std::uint16_t be16(std::size_t offset) const {
        std::uint16_t value = 0;
        if (inside(offset, sizeof value)) std::memcpy(&value, at_ + offset, sizeof value);
        return __builtin_bswap16(value);
    }
    [[nodiscard]] std::uint32_t be32(std::size_t offset) const {
        std::uint32_t value = 0;
        if (inside(offset, sizeof value)) std::memcpy(&value, at_ + offset, sizeof value);
        return __builtin_bswap32(value);
    }
    [[nodiscard]] std::uint32_t be24(std::size_t offset) const {
        return (std::uint32_t{be16(offset)} << 8) | u8(offset + 2);
    }
    // Copies `count` bytes, or nothing if they were not all captured.
    void copy(std::size_t offset, std::size_t count, std::byte* to) const {
        if (inside(offset, count)) std::memcpy(to, at_ + offset, count);
    }

    // Returns true if every captured byte from `offset` on is zero.
    [[nodiscard]] bool zeros_from(std::size_t offset) const {
        for (; offset < captured_; ++offset) {
            if (at_[offset] != std::byte{0}) return false;
        }
        return true;
    }

    void skip(std::size_t count) {
        const std::size_t step = std::min(count, captured_);
        at_ += step;
        captured_ -= step;
        reported_ -= std::min(count, reported_);
    }
    // Shortens the cursor to the length in an outer length field; never lengthens it.
    void limit(std::size_t reported) {
        reported_ = std::min(reported_, reported);
        captured_ = std::min(captured_, reported_);
    }

  private:
    [[nodiscard]] bool inside(std::size_t offset, std::size_t count) const {
        return offset <= captured_ && count <= captured_ - offset;
    }

    const std::byte* at_;
    std::size_t captured_;
    std::size_t reported_;
};

}  // namespace acapella
