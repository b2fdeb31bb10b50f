#include "digest/frame_reader.hpp"

namespace acapella {

FrameReader::FrameReader(const std::string& path, const Vendors* vendors,
                         const input::DecompressionLimits& limits)
    : source_(input::ByteSource::open_or_stdin(path, limits)),
      positions_(std::make_unique<input::PositionsBuilder>(*source_)),
      capture_(input::open_capture(*source_, positions_.get())),
      vendors_(vendors) {}

std::size_t FrameReader::next(std::span<FrameRow> rows) {
    lookups_.resize(rows.size());
    std::size_t count = 0;
    for (; count < rows.size() && capture_->next(record_); ++count) make_row(rows[count], lookups_[count]);
    intern_lookups(rows.first(count));
    return count;
}

void FrameReader::intern_lookups(std::span<FrameRow> rows) {
    for (std::size_t i = 0; i < rows.size(); ++i)
        if (rows[i].key == kPendingKey) keys_.prefetch_key(lookups_[i]);
    for (std::size_t i = 0; i < rows.size(); ++i)
        if (rows[i].key == kPendingKey) rows[i].key = keys_.intern(lookups_[i]);
}

}  // namespace acapella
