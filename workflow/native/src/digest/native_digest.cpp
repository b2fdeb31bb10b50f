#include "digest/native_digest.hpp"

#include <algorithm>

namespace acapella {

std::optional<Batch> NativeDigest::next_frames() {
    std::size_t left = batch_rows_;
    while (left > 0 && !ended_) {
        const std::size_t wanted = std::min(left, kRows);
        const std::size_t count = front_.next(std::span(rows_).first(wanted));
        book_rows(count);
        left -= count;
        ended_ = count < wanted;
    }
    if (ended_) ledger_.close_frames();
    if (left == batch_rows_) return std::nullopt;
    return ledger_.take_frames();
}

void NativeDigest::book_rows(std::size_t count) {
    constexpr std::size_t kAhead = 8;
    for (std::size_t i = 0; i < count; ++i) ledger_.accountant().prefetch_flow(rows_[i].key);
    for (std::size_t i = 0; i < count; ++i) {
        if (i + kAhead < count) ledger_.accountant().prefetch_tcp(rows_[i + kAhead].key);
        ledger_.add(rows_[i], native_verdict(rows_[i]));
    }
}

}  // namespace acapella
