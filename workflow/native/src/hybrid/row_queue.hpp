// Queue of rows, in file order, that wait for the output of tshark.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "frame/frame_row.hpp"

namespace acapella::hybrid {

class RowQueue {
  public:
    bool empty() const { return size_ == 0; }
    std::size_t size() const { return size_; }

    void push(const FrameRow& row) {
        if (end_ == kBlock || blocks_.empty()) add_block();
        blocks_.back()[end_++] = row;
        ++size_;
    }
    FrameRow& front() { return blocks_.front()[first_]; }
    // Returns at most `count` rows from the front; fewer at the end of a block.
    std::span<const FrameRow> first(std::size_t count) const {
        if (empty()) return {};
        return {blocks_.front().get() + first_, std::min({count, size_, kBlock - first_})};
    }
    void pop() {
        --size_;
        if (++first_ == kBlock) drop_block();
    }

  private:
    static constexpr std::size_t kBlock = 1U << 12;  // 256 KiB, so that a short queue stays in the cache
    using Block = std::unique_ptr<FrameRow[]>;

    void add_block() {
        if (spare_.empty()) {
            blocks_.push_back(std::make_unique_for_overwrite<FrameRow[]>(kBlock));
        } else {
            blocks_.push_back(std::move(spare_.back()));
            spare_.pop_back();
        }
        end_ = 0;
    }
    void drop_block() {
        spare_.push_back(std::move(blocks_.front()));
        blocks_.pop_front();
        first_ = 0;
    }

    std::deque<Block> blocks_;
    std::vector<Block> spare_;
    std::size_t first_ = 0;     // in the first block
    std::size_t end_ = kBlock;  // in the last block
    std::size_t size_ = 0;
};

}  // namespace acapella::hybrid
