// The frame table, filled row by row; schemas/tables/frames.yaml describes its columns.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "columns/bitmap.hpp"
#include "columns/column.hpp"
#include "frame/frame_row.hpp"
#include "frame/header_stacks.hpp"

namespace acapella {

// Source of layers 2 to 4. kUnsure: the core's best guess, only in engine native.
enum class L4By : std::uint8_t { kNative, kTshark, kUnsure };
// Source of the application. kUnidentified: it is unknown, as for all payload in engine native.
enum class AppBy : std::uint8_t { kNative, kTshark, kFlow, kUnidentified };

std::string_view text_of(L4By by);
std::string_view text_of(AppBy by);  // empty for kUnidentified

// The dictionary of one column in one batch. It contains only values of the batch, in order of first
// appearance, so that a batch does not depend on other batches.
class LocalDictionary {
  public:
    std::uint32_t local(std::uint32_t row) {
        if (row >= local_of_row_.size()) local_of_row_.resize(row + 1, kNone);
        std::uint32_t& local = local_of_row_[row];
        if (local == kNone) {
            local = static_cast<std::uint32_t>(rows_.size());
            rows_.push_back(row);
        }
        return local;
    }
    const std::vector<std::uint32_t>& rows() const { return rows_; }
    void clear() {
        for (const std::uint32_t row : rows_) local_of_row_[row] = kNone;
        rows_.clear();
    }

  private:
    std::vector<std::uint32_t> local_of_row_;
    std::vector<std::uint32_t> rows_;
};

class FrameColumns {
  public:
    // Batches have up to `capacity` rows. Their buffers are reused once the receiver has released them.
    FrameColumns(const HeaderStacks& header_stacks, std::size_t capacity);
    ~FrameColumns();

    void add(const FrameRow& row, std::uint32_t stack, std::uint32_t flow, L4By l4_by, AppBy app_by);
    std::size_t size() const;
    bool full() const { return size() == capacity_; }
    // Returns the rows added since the last call. The batch may be empty.
    Batch take();
    // Frees the buffers. Call after the last row.
    void close();

  private:
    struct Buffers;
    struct BufferPool;

    const HeaderStacks& header_stacks_;
    std::size_t capacity_;
    std::shared_ptr<BufferPool> pool_;  // also owned by the deleters of batches
    std::unique_ptr<Buffers> current_;  // null until the first row after take()
    LocalDictionary protocols_;
    LocalDictionary stacks_;
    LocalDictionary l4_by_;
    LocalDictionary app_by_;
    LocalDictionary issues_;
};

}  // namespace acapella
