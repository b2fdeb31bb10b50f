// A growing array that allocates blocks and never copies, so that growing does not need twice the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace acapella {

template <typename T>
class Pool {
  public:
    std::uint32_t add(const T& value) {
        if ((size_ & kMask) == 0) blocks_.push_back(std::make_unique_for_overwrite<T[]>(kMask + 1));
        (*this)[size_] = value;
        return size_++;
    }

    T& operator[](std::uint32_t i) { return blocks_[i >> kShift][i & kMask]; }
    const T& operator[](std::uint32_t i) const { return blocks_[i >> kShift][i & kMask]; }
    std::uint32_t size() const { return size_; }
    std::uint64_t bytes() const { return std::uint64_t{blocks_.size()} * (kMask + 1) * sizeof(T); }

  private:
    static constexpr std::uint32_t kShift = 12;
    static constexpr std::uint32_t kMask = (1U << kShift) - 1;
    std::vector<std::unique_ptr<T[]>> blocks_;
    std::uint32_t size_ = 0;
};

}  // namespace acapella
