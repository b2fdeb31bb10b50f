#include "digest/native_digest.hpp"

#include <algorithm>

namespace acapella {

std::optional<Batch> NativeDigest::next_frames() {
    std::size_t left = batch_rows_;
    while (left > 0 && !ended_) {
        const std::size_t requested = std::min(left, kRows);
        const std::size_t count = reader_.next(std::span(rows_).first(requested));
        add_rows(count);
        left -= count;
        ended_ = count < requested;
    }
    if (ended_) builder_.close_frames();
    if (left == batch_rows_) return std::nullopt;
    return builder_.take_frames();
}

void NativeDigest::add_rows(std::size_t count) {
    constexpr std::size_t kPrefetchDistance = 8;
    for (std::size_t i = 0; i < count; ++i) builder_.flow_table().prefetch_flow(rows_[i].key);
    for (std::size_t i = 0; i < count; ++i) {
        if (i + kPrefetchDistance < count)
            builder_.flow_table().prefetch_tcp(rows_[i + kPrefetchDistance].key);
        builder_.add(rows_[i], native_decision(rows_[i]));
    }
}

}  // namespace acapella
