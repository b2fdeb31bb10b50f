#include "collector/receive/queue_pair.hpp"

#include <sys/mman.h>

#include <new>

namespace acapella::collector {
namespace {

constexpr std::size_t kBytes = SequenceWindow::kModulus / 8;
constexpr std::uint32_t kHalf = SequenceWindow::kModulus / 2;

}  // namespace

void SequenceWindow::Unmap::operator()(std::uint64_t* bits) const { ::munmap(bits, kBytes); }

// Mapped rather than allocated, because a sanitizer would touch all of an allocation.
SequenceWindow::SequenceWindow(std::uint32_t initial)
    : expected_(initial % kModulus), expected_known_(initial != QueuePairConfig::kFirstSeen) {
    void* mapped = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    bits_.reset(static_cast<std::uint64_t*>(mapped));
}

SequenceWindow::Position SequenceWindow::position_of(std::uint32_t psn) const {
    if (!expected_known_ || psn == expected_) return Position::expected;
    if ((psn - expected_) % kModulus < kHalf) return Position::ahead;
    const std::uint32_t distance = (expected_ - psn) % kModulus;
    return distance > passed_ || has(psn) ? Position::duplicate : Position::reordered;
}

std::uint32_t SequenceWindow::advance(std::uint32_t psn) {
    const std::uint32_t lost = expected_known_ ? (psn - expected_) % kModulus : 0;
    // Bits of later PSNs are set only if they are left over from the previous cycle.
    if (passed_ + lost + 1 > kModulus) forget(expected_known_ ? expected_ : psn, lost + 1);
    mark(psn);
    expected_known_ = true;
    passed_ += lost + 1;
    expected_ = (psn + 1) % kModulus;
    return lost;
}

// Clears the bits of PSNs that will be reused.
void SequenceWindow::forget(std::uint32_t psn, std::uint32_t count) {
    for (; count > 0 && psn % 64 != 0; --count, psn = (psn + 1) % kModulus)
        bits_[psn / 64] &= ~(std::uint64_t{1} << (psn % 64));
    for (; count >= 64; count -= 64, psn = (psn + 64) % kModulus) bits_[psn / 64] = 0;
    if (count > 0) bits_[psn / 64] &= ~((std::uint64_t{1} << count) - 1);
}

QueuePair::QueuePair(const QueuePairConfig& config, Format format)
    : config_(config), format_(format), bytes_(bytes_of(format)), window_(config.initial_psn) {}

Verdict QueuePair::check(const WriteRequest& request) {
    if (request.key != config_.key) return Verdict::bad_key;
    if (request.length != bytes_ || request.payload.size() != bytes_) return Verdict::bad_length;
    const std::uint64_t offset = request.address - config_.base;
    if (request.address < config_.base || offset > config_.slots * bytes_ - bytes_ || offset % bytes_ != 0)
        return Verdict::out_of_bounds;
    if (!is_report(format_, request.payload.data())) return Verdict::bad_version;
    switch (window_.position_of(request.psn)) {
        case SequenceWindow::Position::duplicate:
            return Verdict::psn_duplicate;
        case SequenceWindow::Position::reordered:
            window_.mark(request.psn);
            return Verdict::psn_reordered;
        case SequenceWindow::Position::expected:
        case SequenceWindow::Position::ahead:
            break;
    }
    lost_ += window_.advance(request.psn);
    ++accepted_;
    return Verdict::accepted;
}

}  // namespace acapella::collector
