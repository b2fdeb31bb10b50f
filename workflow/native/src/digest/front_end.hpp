// The first half of a digest: a capture in, one row a frame out, keys and stacks interned on the way.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dissect/dispatch.hpp"
#include "flow/flow_keys.hpp"
#include "frame/frame_row.hpp"
#include "frame/stack_names.hpp"
#include "input/capture_reader.hpp"

namespace acapella {

class FrontEnd {
  public:
    // `path`: a file, or "-" for standard input; `vendors`, as dissect() takes them, outlive this. Raises
    // input::InputError.
    explicit FrontEnd(const std::string& path, const Vendors* vendors = nullptr,
                      const input::DecompressionLimits& limits = {});

    // The next frame's row; false at the end, see facts().
    bool next(FrameRow& row) {
        if (!reader_->next(record_)) return false;
        dissect(record_, dissection_, vendors_);
        row = frame_row(record_, dissection_, names_.intern(dissection_), keys_.intern(dissection_));
        return true;
    }

    // As many of the next rows as `rows` holds; fewer at the end. The look-ups of their flows overlap.
    std::size_t next(std::span<FrameRow> rows);
    // The same, and `look` is called with the place of each row, whose key is not there yet, while record()
    // and dissection() are of it. Their bytes stay until the next call, and so there may be fewer rows
    // elsewhere than at the end; at the end there is none.
    template <typename Look>
    std::size_t next(std::span<FrameRow> rows, Look look);

    // Of the row that next() gave last.
    const Record& record() const { return record_; }
    const Dissection& dissection() const { return dissection_; }

    const input::CaptureReader& reader() const { return *reader_; }
    const input::FileFacts& facts() const { return reader_->facts(); }
    std::uint64_t offset() const { return source_->offset(); }
    StackNames& names() { return names_; }
    FlowKeys& keys() { return keys_; }

  private:
    static constexpr std::uint32_t kSought = kNone - 1;  // no key's number: it would take that many keys

    // The record's row; its key where it cannot wait.
    void start_row(FrameRow& row, FlowKeys::Sought& sought) {
        dissect(record_, dissection_, vendors_);
        const bool waits = keys_.seek(dissection_, sought);
        const std::uint32_t key = waits ? kSought : keys_.intern(dissection_);
        row = frame_row(record_, dissection_, names_.intern(dissection_), key);
    }
    void intern_sought(std::span<FrameRow> rows);

    std::unique_ptr<input::ByteSource> source_;
    std::unique_ptr<input::CaptureReader> reader_;
    const Vendors* vendors_;
    StackNames names_;
    FlowKeys keys_;
    std::vector<FlowKeys::Sought> sought_;
    Record record_;
    Dissection dissection_;
};

template <typename Look>
std::size_t FrontEnd::next(std::span<FrameRow> rows, Look look) {
    source_->keep();
    sought_.resize(rows.size());
    std::size_t count = 0;
    while (count < rows.size() && !source_->moved() && reader_->next(record_)) {
        start_row(rows[count], sought_[count]);
        look(count);
        ++count;
    }
    intern_sought(rows.first(count));
    return count;
}

}  // namespace acapella
