// The first half of a digest: a capture in, one row a frame out, keys and stacks interned on the way.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "digest/frame_row.hpp"
#include "digest/stack_names.hpp"
#include "dissect/dispatch.hpp"
#include "flow/flow_keys.hpp"
#include "input/capture_reader.hpp"

namespace acapella {

class FrontEnd {
  public:
    // `path`: a file, or "-" for standard input; `vendors`, as dissect() takes them, outlive this. Raises
    // input::InputError.
    explicit FrontEnd(const std::string& path, const Vendors* vendors = nullptr);

    // The next frame's row; false at the end, see facts().
    bool next(FrameRow& row) {
        if (!reader_->next(record_)) return false;
        dissect(record_, dissection_, vendors_);
        row = frame_row(record_, dissection_, names_.intern(dissection_), keys_.intern(dissection_));
        return true;
    }

    // As many of the next rows as `rows` holds; fewer at the end. The look-ups of their flows overlap.
    std::size_t next(std::span<FrameRow> rows);

    // Of the row that next() gave last.
    const Record& record() const { return record_; }
    const Dissection& dissection() const { return dissection_; }

    const input::CaptureReader& reader() const { return *reader_; }
    const input::FileFacts& facts() const { return reader_->facts(); }
    std::uint64_t offset() const { return source_->offset(); }
    StackNames& names() { return names_; }
    FlowKeys& keys() { return keys_; }

  private:
    std::unique_ptr<input::ByteSource> source_;
    std::unique_ptr<input::CaptureReader> reader_;
    const Vendors* vendors_;
    StackNames names_;
    FlowKeys keys_;
    std::vector<FlowKeys::Sought> sought_;
    Record record_;
    Dissection dissection_;
};

}  // namespace acapella
