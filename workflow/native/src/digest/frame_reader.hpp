// The first half of a digest: reads a capture, dissects each frame into a row, and numbers keys and header
// stacks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dissect/dispatch.hpp"
#include "flow/flow_keys.hpp"
#include "frame/frame_row.hpp"
#include "frame/header_stacks.hpp"
#include "input/capture_reader.hpp"
#include "input/positions/positions.hpp"

namespace acapella {

class FrameReader {
  public:
    // `path`: a file, or "-" for standard input. `vendors`: as for dissect(); must outlive this object.
    // Throws input::InputError.
    explicit FrameReader(const std::string& path, const Vendors* vendors = nullptr,
                         const input::DecompressionLimits& limits = {});

    // Reads the next frame into a row. Returns false at the end; see info().
    bool next(FrameRow& row) {
        if (!capture_->next(record_)) return false;
        positions_->add(record_.frame, source_->offset());
        dissect(record_, dissection_, vendors_);
        row = frame_row(record_, dissection_, header_stacks_.intern(dissection_), keys_.intern(dissection_));
        return true;
    }

    // Fills `rows`, or fewer rows at the end; returns their number. Memory latencies of the key lookups
    // overlap.
    std::size_t next(std::span<FrameRow> rows);
    // Like next(rows), but calls `on_row(i)` for each row, whose key may not be set yet. During the call,
    // record() and dissection() describe the row. Their bytes are valid until the next call of next(); to
    // keep them valid, it may return fewer rows even before the end. Returns 0 at the end.
    template <typename OnRow>
    std::size_t next(std::span<FrameRow> rows, OnRow on_row);

    // The record of the row that next() read last.
    const Record& record() const { return record_; }
    const Dissection& dissection() const { return dissection_; }

    const input::CaptureReader& capture() const { return *capture_; }
    const input::FileInfo& info() const { return capture_->info(); }
    std::uint64_t offset() const { return source_->offset(); }
    // Returns the encoded positions of the frames (input/positions/positions.hpp). Call after the last frame.
    std::string positions() const { return positions_->finish(*source_, info().records); }
    HeaderStacks& header_stacks() { return header_stacks_; }
    FlowKeys& keys() { return keys_; }

  private:
    static constexpr std::uint32_t kPendingKey = kNone - 1;  // not the number of a key

    // Creates the row of the current record; its key may be pending.
    void make_row(FrameRow& row, FlowKeys::Lookup& lookup) {
        positions_->add(record_.frame, source_->offset());
        dissect(record_, dissection_, vendors_);
        const bool pending = keys_.start_lookup(dissection_, lookup);
        const std::uint32_t key = pending ? kPendingKey : keys_.intern(dissection_);
        row = frame_row(record_, dissection_, header_stacks_.intern(dissection_), key);
    }
    void intern_lookups(std::span<FrameRow> rows);

    std::unique_ptr<input::ByteSource> source_;
    std::unique_ptr<input::PositionsBuilder> positions_;
    std::unique_ptr<input::CaptureReader> capture_;
    const Vendors* vendors_;
    HeaderStacks header_stacks_;
    FlowKeys keys_;
    std::vector<FlowKeys::Lookup> lookups_;
    Record record_;
    Dissection dissection_;
};

template <typename OnRow>
std::size_t FrameReader::next(std::span<FrameRow> rows, OnRow on_row) {
    source_->pin_views();
    lookups_.resize(rows.size());
    std::size_t count = 0;
    while (count < rows.size() && !source_->buffer_changed() && capture_->next(record_)) {
        make_row(rows[count], lookups_[count]);
        on_row(count);
        ++count;
    }
    intern_lookups(rows.first(count));
    return count;
}

}  // namespace acapella
