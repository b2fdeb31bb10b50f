// An open-addressed index from hashes to row numbers; the rows themselves live with the caller, who compares
// them.
#pragma once

#include <cstdint>
#include <vector>

namespace acapella {

inline constexpr std::uint32_t kNone = 0xffffffff;

class Slots {
  public:
    Slots() : slots_(1U << 10) {}

    // The row for which `equal(row)` holds among those stored under `hash`, or kNone.
    template <typename Equal>
    std::uint32_t find(std::uint64_t hash, const Equal& equal) const {
        const std::uint64_t mask = slots_.size() - 1;
        const auto tag = static_cast<std::uint32_t>(hash >> 32);
        for (std::uint64_t i = hash & mask; slots_[i].row != kNone; i = (i + 1) & mask)
            if (slots_[i].tag == tag && equal(slots_[i].row)) return slots_[i].row;
        return kNone;
    }

    // Two steps ahead of a look-up, for those who have other work meanwhile: fetch the slot, then guess the
    // row by it.
    void prefetch(std::uint64_t hash) const { __builtin_prefetch(&slots_[hash & (slots_.size() - 1)]); }
    std::uint32_t guess(std::uint64_t hash) const { return slots_[hash & (slots_.size() - 1)].row; }

    // `hash_of(row)` gives the hash of a row stored before; it is needed when the index grows.
    template <typename HashOf>
    void insert(std::uint64_t hash, std::uint32_t row, const HashOf& hash_of) {
        if (4 * (count_ + 1) > 3 * slots_.size()) grow(hash_of);
        place(slots_, hash, row);
        ++count_;
    }

  private:
    struct Slot {
        std::uint32_t tag = 0;
        std::uint32_t row = kNone;
    };

    static void place(std::vector<Slot>& slots, std::uint64_t hash, std::uint32_t row) {
        const std::uint64_t mask = slots.size() - 1;
        std::uint64_t i = hash & mask;
        while (slots[i].row != kNone) i = (i + 1) & mask;
        slots[i] = {static_cast<std::uint32_t>(hash >> 32), row};
    }

    template <typename HashOf>
    void grow(const HashOf& hash_of) {
        std::vector<Slot> larger(slots_.size() * 2);
        for (const Slot& slot : slots_)
            if (slot.row != kNone) place(larger, hash_of(slot.row), slot.row);
        slots_ = std::move(larger);
    }

    std::vector<Slot> slots_;
    std::uint64_t count_ = 0;
};

}  // namespace acapella
