// An Arrow validity bitmap to which bits are appended.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace acapella {

class Bitmap {
  public:
    explicit Bitmap(std::size_t capacity = 0) : words_(capacity / 64 + 1) {}

    void add(bool valid) {
        word_ |= static_cast<std::uint64_t>(valid) << (size_ & 63);
        valid_ += valid;
        const std::size_t at = size_++ / 64;
        words_[at] = word_;
        if ((size_ & 63) == 0) next_word();
    }
    void clear() { word_ = size_ = valid_ = 0; }
    std::int64_t nulls() const { return static_cast<std::int64_t>(size_ - valid_); }
    const void* words() const { return words_.data(); }
    // Returns null if no value is null, as Arrow allows.
    const void* buffer() const { return nulls() == 0 ? nullptr : words_.data(); }

  private:
    void next_word() {
        word_ = 0;
        if (size_ / 64 == words_.size()) words_.resize(2 * words_.size());
    }

    std::vector<std::uint64_t> words_;
    std::uint64_t word_ = 0;
    std::uint64_t size_ = 0;
    std::uint64_t valid_ = 0;
};

// The validity bitmaps of one table. While the table is filled, each row has one byte with one bit per
// bitmap.
class RowValidity {
  public:
    explicit RowValidity(std::size_t capacity)
        : rows_(std::make_unique_for_overwrite<std::uint8_t[]>(capacity + 7)) {}

    void set(std::size_t row, std::uint8_t bits) { rows_[row] = bits; }

    // Writes the bitmap of `bit` for the first `size` rows to `bitmap`. Returns the number of nulls.
    std::int64_t pack(std::size_t size, unsigned bit, std::vector<std::uint8_t>& bitmap) {
        std::memset(rows_.get() + size, 0, 7);  // the loop below reads whole words
        bitmap.resize((size + 7) / 8);
        std::int64_t valid = 0;
        for (std::size_t at = 0; at < bitmap.size(); ++at) {
            std::uint64_t eight = 0;
            std::memcpy(&eight, rows_.get() + 8 * at, sizeof eight);
            // A multiplication gathers the lowest bit of each byte in the highest byte.
            bitmap[at] =
                static_cast<std::uint8_t>(((eight >> bit) & 0x0101010101010101) * 0x0102040810204080 >> 56);
            valid += std::popcount(bitmap[at]);
        }
        return static_cast<std::int64_t>(size) - valid;
    }

  private:
    std::unique_ptr<std::uint8_t[]> rows_;
};

}  // namespace acapella
