#include "digest/front_end.hpp"

#include <unistd.h>

namespace acapella {

FrontEnd::FrontEnd(const std::string& path, const Vendors* vendors)
    : source_(path == "-" ? input::ByteSource::from_descriptor(STDIN_FILENO, "standard input")
                          : input::ByteSource::open(path)),
      reader_(input::open_capture(*source_)),
      vendors_(vendors) {}

std::size_t FrontEnd::next(std::span<FrameRow> rows) {
    constexpr std::uint32_t kSought = kNone - 1;  // no key's number: it would take that many keys
    sought_.resize(rows.size());
    std::size_t count = 0;
    for (; count < rows.size() && reader_->next(record_); ++count) {
        dissect(record_, dissection_, vendors_);
        const bool sought = keys_.seek(dissection_, sought_[count]);
        const std::uint32_t key = sought ? kSought : keys_.intern(dissection_);
        rows[count] = frame_row(record_, dissection_, names_.intern(dissection_), key);
    }
    for (std::size_t i = 0; i < count; ++i)
        if (rows[i].key == kSought) keys_.fetch(sought_[i]);
    for (std::size_t i = 0; i < count; ++i)
        if (rows[i].key == kSought) rows[i].key = keys_.intern(sought_[i]);
    return count;
}

}  // namespace acapella
