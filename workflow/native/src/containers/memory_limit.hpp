// The error of a command whose tables exceed the memory limit.
#pragma once

#include <cstdint>
#include <stdexcept>

namespace acapella {

inline constexpr std::uint64_t kUnlimited = UINT64_MAX;

// The tables need more memory than allowed. what() is one line.
class MemoryLimitError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

}  // namespace acapella
