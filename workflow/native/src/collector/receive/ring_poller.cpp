#include "collector/receive/ring_poller.hpp"

#include <algorithm>
#include <atomic>

namespace acapella::collector {
namespace {

// Returns the value that distinguishes successive reports in a slot.
std::uint64_t stamp_of(Format format, const std::byte* report) {
    return format == Format::published ? format1::timestamp.of(report) : format2::report_sequence.of(report);
}

}  // namespace

RingPoller::RingPoller(const std::byte* ring, std::uint32_t slots, Format format, bool single_ring)
    : ring_(ring),
      slots_(slots),
      format_(format),
      detects_gaps_(single_ring && format == Format::tagged),
      stamp_(slots) {}

std::uint32_t RingPoller::poll(std::vector<std::byte>& found, std::uint32_t max_reports) {
    const std::uint32_t max_ahead = std::min(kLookAhead, slots_);
    ++calls_;
    std::uint32_t added = 0;
    for (; added < max_reports; ++added) {
        std::uint32_t ahead = 0;
        std::uint64_t stamp = 0;
        while (ahead < max_ahead && !find_new(wrapped(at_ + ahead), stamp)) ++ahead;
        if (ahead == max_ahead) break;
        const std::uint32_t slot = wrapped(at_ + ahead);
        if (!is_complete(slot, stamp) || !append(slot, found, stamp)) break;
        for (std::uint32_t i = 0; i < ahead; ++i) skip_slot(wrapped(at_ + i));
        record_stamp(slot, stamp);
        at_ = wrapped(slot + 1);
    }
    return added;
}

// Returns true if the slot contains a new report. Sets `stamp` to the stamp of the slot in any case.
bool RingPoller::find_new(std::uint32_t slot, std::uint64_t& stamp) const {
    const std::byte* report = ring_ + slot * bytes_of(format_);
    stamp = stamp_of(format_, report);
    const bool has_report = is_report(format_, report) && is_new(slot, stamp);
    // prevents later reads of the ring from being moved before the reads above
    std::atomic_thread_fence(std::memory_order_acquire);
    return has_report;
}

// Appends the slot to `found` if the copy is a new report. `stamp`: stamp of the copy.
bool RingPoller::append(std::uint32_t slot, std::vector<std::byte>& found, std::uint64_t& stamp) const {
    const std::size_t bytes = bytes_of(format_);
    const std::byte* report = ring_ + slot * bytes;
    const std::size_t old_size = found.size();
    found.insert(found.end(), report, report + bytes);
    const std::byte* copy = found.data() + old_size;
    stamp = stamp_of(format_, copy);
    if (is_report(format_, copy) && is_new(slot, stamp)) return true;
    found.resize(old_size);
    return false;
}

bool RingPoller::is_complete(std::uint32_t slot, std::uint64_t stamp) {
    std::uint64_t next = 0;
    if (slots_ > 1 && find_new(wrapped(slot + 1), next)) return true;
    if (pending_.slot == slot && pending_.stamp == stamp && pending_.call < calls_ && pending_.call > 0)
        return true;
    pending_ = {slot, stamp, calls_};
    return false;
}

bool RingPoller::is_new(std::uint32_t slot, std::uint64_t stamp) const {
    if (!detects_gaps_ || !has_report_) return stamp != stamp_[slot] && stamp != 0;
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(stamp - stamp_[slot])) >= 0;
}

void RingPoller::record_stamp(std::uint32_t slot, std::uint64_t stamp) {
    if (!detects_gaps_) {
        stamp_[slot] = stamp;
        has_report_ = true;
        return;
    }
    const auto sequence = static_cast<std::uint32_t>(stamp);
    if (!has_report_) {
        for (std::uint32_t i = 0; i < slots_; ++i) stamp_[(slot + i) % slots_] = sequence + i;
        has_report_ = true;
    }
    const std::uint32_t ahead = sequence - static_cast<std::uint32_t>(stamp_[slot]);
    if (ahead != 0) overrun_ += ahead / slots_;
    stamp_[slot] = sequence + slots_;
}

void RingPoller::skip_slot(std::uint32_t slot) {
    if (!detects_gaps_ || !has_report_) return;
    ++lost_;
    stamp_[slot] += slots_;
}

}  // namespace acapella::collector
