// Assigns numbers to strings in order of first appearance. For small sets such as header stacks and tokens.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace acapella {

class TextTable {
  public:
    std::uint32_t intern(std::string_view text) {
        const auto found = rows_.find(text);
        if (found != rows_.end()) return found->second;
        texts_.emplace_back(text);  // a deque, so that the views in rows_ stay valid
        bytes_ += kEntry + text.size();
        const auto row = static_cast<std::uint32_t>(texts_.size() - 1);
        rows_.emplace(texts_.back(), row);
        return row;
    }

    const std::string& operator[](std::uint32_t row) const { return texts_[row]; }
    std::uint32_t size() const { return static_cast<std::uint32_t>(texts_.size()); }
    std::uint64_t bytes() const { return bytes_; }  // approximate memory use

  private:
    // The string, its view and row, a node and a bucket, malloc headers.
    static constexpr std::uint64_t kEntry = 128;

    std::uint64_t bytes_ = 0;
    std::deque<std::string> texts_;
    std::unordered_map<std::string_view, std::uint32_t> rows_;
};

}  // namespace acapella
