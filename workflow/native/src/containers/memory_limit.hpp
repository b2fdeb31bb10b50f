// What ends a command whose tables may not grow on.
#pragma once

#include <cstdint>
#include <stdexcept>

namespace acapella {

inline constexpr std::uint64_t kUnlimited = UINT64_MAX;

// Tables exceed the memory that they may take. what() is one line.
class MemoryLimitError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

}  // namespace acapella
