#include "collector/ring_poller.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

namespace acapella::collector {
namespace {

// What tells two reports of a slot apart.
std::uint64_t stamp_of(Format format, const std::byte* report) {
    return format == Format::published ? format1::timestamp.of(report) : format2::report_sequence.of(report);
}

}  // namespace

RingPoller::RingPoller(const std::byte* ring, std::uint32_t slots, Format format, bool alone)
    : ring_(ring),
      slots_(slots),
      format_(format),
      counts_(alone && format == Format::tagged),
      stamp_(slots) {}

std::uint32_t RingPoller::poll(std::vector<std::byte>& found, std::uint32_t most) {
    std::array<std::byte, format2::kBytes> copy;
    const std::size_t bytes = bytes_of(format_);
    const std::uint32_t far = std::min(kLookAhead, slots_);
    ++calls_;
    std::uint32_t taken = 0;
    for (; taken < most; ++taken) {
        std::uint32_t ahead = 0;
        while (ahead < far && !look((at_ + ahead) % slots_, copy.data())) ++ahead;
        if (ahead == far) break;
        const std::uint32_t slot = (at_ + ahead) % slots_;
        if (!is_whole(slot, stamp_of(format_, copy.data())) || !look(slot, copy.data())) break;
        for (std::uint32_t i = 0; i < ahead; ++i) pass_by((at_ + i) % slots_);
        note(slot, copy.data());
        found.insert(found.end(), copy.begin(), copy.begin() + static_cast<std::ptrdiff_t>(bytes));
        at_ = (slot + 1) % slots_;
    }
    return taken;
}

// A new report in the slot, and a copy of it.
bool RingPoller::look(std::uint32_t slot, std::byte* copy) const {
    const std::size_t bytes = bytes_of(format_);
    std::memcpy(copy, ring_ + slot * bytes, bytes);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // what is looked at next is looked at later
    return is_report(format_, copy) && is_new(slot, copy);
}

bool RingPoller::is_whole(std::uint32_t slot, std::uint64_t stamp) {
    std::array<std::byte, format2::kBytes> next;
    if (look((slot + 1) % slots_, next.data())) return true;
    if (front_.slot == slot && front_.stamp == stamp && front_.call < calls_ && front_.call > 0) return true;
    front_ = {slot, stamp, calls_};
    return false;
}

bool RingPoller::is_new(std::uint32_t slot, const std::byte* report) const {
    const std::uint64_t stamp = stamp_of(format_, report);
    if (!counts_ || !any_) return stamp != stamp_[slot] && stamp != 0;
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(stamp - stamp_[slot])) >= 0;
}

void RingPoller::note(std::uint32_t slot, const std::byte* report) {
    const std::uint64_t stamp = stamp_of(format_, report);
    if (!counts_) {
        stamp_[slot] = stamp;
        any_ = true;
        return;
    }
    const auto sequence = static_cast<std::uint32_t>(stamp);
    if (!any_) {
        for (std::uint32_t i = 0; i < slots_; ++i) stamp_[(slot + i) % slots_] = sequence + i;
        any_ = true;
    }
    overrun_ += (sequence - static_cast<std::uint32_t>(stamp_[slot])) / slots_;
    stamp_[slot] = sequence + slots_;
}

void RingPoller::pass_by(std::uint32_t slot) {
    if (!counts_ || !any_) return;
    ++lost_;
    stamp_[slot] += slots_;
}

}  // namespace acapella::collector
