#include "digest/front_end.hpp"

#include <unistd.h>

namespace acapella {

FrontEnd::FrontEnd(const std::string& path, const Vendors* vendors, const input::DecompressionLimits& limits)
    : source_(path == "-" ? input::ByteSource::from_descriptor(STDIN_FILENO, "standard input", limits)
                          : input::ByteSource::open(path, limits)),
      reader_(input::open_capture(*source_)),
      vendors_(vendors) {}

std::size_t FrontEnd::next(std::span<FrameRow> rows) {
    sought_.resize(rows.size());
    std::size_t count = 0;
    for (; count < rows.size() && reader_->next(record_); ++count) start_row(rows[count], sought_[count]);
    intern_sought(rows.first(count));
    return count;
}

void FrontEnd::intern_sought(std::span<FrameRow> rows) {
    for (std::size_t i = 0; i < rows.size(); ++i)
        if (rows[i].key == kSought) keys_.fetch(sought_[i]);
    for (std::size_t i = 0; i < rows.size(); ++i)
        if (rows[i].key == kSought) rows[i].key = keys_.intern(sought_[i]);
}

}  // namespace acapella
