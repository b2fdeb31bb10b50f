// An open-addressed index from hashes to row numbers. The caller stores and compares the rows.
//
// A slot has four bytes. The lower bits are the row number; it needs no more bits than the slot number,
// because rows are numbered from 0 and the index is never full. The upper bits are hash bits, so that few
// rows are compared without a match.
#pragma once

#include <cstdint>
#include <vector>

namespace acapella {

inline constexpr std::uint32_t kNone = 0xffffffff;

class HashIndex {
  public:
    HashIndex() : slots_(std::size_t{1} << kFirstBits, kNone) {}

    // Returns the row stored under `hash` for which `equal(row)` is true, or kNone.
    template <typename Equal>
    std::uint32_t find(std::uint64_t hash, const Equal& equal) const {
        const std::uint64_t mask = this->mask();
        const std::uint32_t wanted = tag(hash);
        for (std::uint64_t i = hash & mask; slots_[i] != kNone; i = (i + 1) & mask) {
            const std::uint32_t row = slots_[i] & static_cast<std::uint32_t>(mask);
            if (slots_[i] - row == wanted && equal(row)) return row;
        }
        return kNone;
    }

    // Two optional steps before a lookup: prefetch the slot, then guess the row from the slot.
    void prefetch(std::uint64_t hash) const { __builtin_prefetch(&slots_[hash & mask()]); }
    std::uint32_t guess(std::uint64_t hash) const {
        const std::uint32_t slot = slots_[hash & mask()];
        return slot == kNone ? kNone : slot & static_cast<std::uint32_t>(mask());
    }

    // `row` is the number of rows stored so far. `hash_of(row)` returns the hash of a stored row and is
    // called when the index grows.
    template <typename HashOf>
    void insert(std::uint64_t hash, std::uint32_t row, const HashOf& hash_of) {
        if (4 * (std::uint64_t{row} + 1) > 3 * slots_.size()) grow(row, hash_of);
        place(hash, row);
    }

    std::uint64_t bytes() const { return slots_.size() * sizeof(slots_[0]); }

  private:
    static constexpr unsigned kFirstBits = 10;

    std::uint64_t mask() const { return slots_.size() - 1; }
    // The hash bits stored in a slot, above the bits of the row number.
    std::uint32_t tag(std::uint64_t hash) const {
        return static_cast<std::uint32_t>(hash >> 32) & ~static_cast<std::uint32_t>(mask());
    }

    void place(std::uint64_t hash, std::uint32_t row) {
        std::uint64_t i = hash & mask();
        while (slots_[i] != kNone) i = (i + 1) & mask();
        slots_[i] = tag(hash) | row;
    }

    template <typename HashOf>
    void grow(std::uint32_t rows, const HashOf& hash_of) {
        const std::size_t size = slots_.size() * 2;
        slots_ = {};  // freed first, so that the old and new slots never coexist
        slots_.resize(size, kNone);
        for (std::uint32_t row = 0; row < rows; ++row) place(hash_of(row), row);
    }

    std::vector<std::uint32_t> slots_;
};

}  // namespace acapella
