// Integer types that are large enough for every sum of kappa.
#pragma once

#include <cstdint>

namespace acapella::kappa {

__extension__ using Sum128 = unsigned __int128;
__extension__ using SignedSum128 = __int128;

inline std::uint64_t magnitude(std::int64_t value) {
    return value < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(value)
                     : static_cast<std::uint64_t>(value);
}

// Unsigned differences of timestamps wrap and never overflow.
inline std::uint64_t elapsed_ns(std::int64_t later, std::int64_t earlier) {
    return static_cast<std::uint64_t>(later) - static_cast<std::uint64_t>(earlier);
}

}  // namespace acapella::kappa
