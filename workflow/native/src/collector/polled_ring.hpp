// A ring of reports that a device writes to behind our back: new ones are found by looking.
//
// A slot has a report where the format's mark is not zero: the version byte, or the time of the published
// format. We zero it when the report was read. A device may still be writing the newest slot whose mark is
// there, so that one is left for the next look.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "collector/report.hpp"

namespace acapella::collector {

class PolledRing {
  public:
    // The memory is zeroed, outlives the ring, and has `slots` reports.
    PolledRing(Format format, std::byte* memory, std::uint32_t slots)
        : memory_(memory), slots_(slots), bytes_(bytes_of(format)), mark_(mark_of(format)) {}

    // Calls take(bytes, count) for the reports that have come, in their order, in at most two runs; returns
    // how many. Their slots are free afterwards.
    template <typename Take>
    std::uint32_t poll(const Take& take) {
        std::uint32_t count = filled();
        const std::uint64_t end = position_ + count;
        const bool newest_is_settled = end == seen_;  // it was there at the last look
        seen_ = end;
        if (count > 0 && !newest_is_settled) --count;
        for (std::uint32_t left = count; left > 0;) {
            const auto at = static_cast<std::uint32_t>(position_ % slots_);
            const std::uint32_t run = std::min(left, slots_ - at);
            take(slot(at), run);
            for (std::uint32_t i = 0; i < run; ++i) std::memset(slot(at + i) + mark_.offset, 0, mark_.bytes);
            position_ += run;
            left -= run;
        }
        return count;
    }

  private:
    struct Mark {
        std::size_t offset;
        std::size_t bytes;
    };
    static constexpr Mark mark_of(Format format) {
        return format == Format::published ? Mark{56, 8} : Mark{0, 1};  // timestamp, version
    }

    std::byte* slot(std::uint32_t at) const { return memory_ + at * bytes_; }

    // Slots from the next one on whose mark is there, at most a whole ring.
    std::uint32_t filled() const {
        std::uint32_t count = 0;
        while (count < slots_ && has_mark(static_cast<std::uint32_t>((position_ + count) % slots_))) ++count;
        return count;
    }
    bool has_mark(std::uint32_t at) const {
        const auto* mark = reinterpret_cast<const unsigned char*>(slot(at) + mark_.offset);
        for (std::size_t i = 0; i < mark_.bytes; ++i)
            if (__atomic_load_n(mark + i, __ATOMIC_ACQUIRE) != 0) return true;
        return false;
    }

    std::byte* memory_;
    std::uint32_t slots_;
    std::size_t bytes_;
    Mark mark_;
    std::uint64_t position_ = 0;  // reports read so far
    std::uint64_t seen_ = 0;      // up to here marks were there at the last look
};

}  // namespace acapella::collector
