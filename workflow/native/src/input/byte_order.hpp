// Reads integers of either byte order. The caller must check the bounds.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace acapella::input {

template <typename Integer>
Integer swap_bytes(Integer value) {
    if constexpr (sizeof(Integer) == 2) {
        return static_cast<Integer>(__builtin_bswap16(static_cast<std::uint16_t>(value)));
    } else if constexpr (sizeof(Integer) == 4) {
        return static_cast<Integer>(__builtin_bswap32(static_cast<std::uint32_t>(value)));
    } else {
        static_assert(sizeof(Integer) == 8);
        return static_cast<Integer>(__builtin_bswap64(static_cast<std::uint64_t>(value)));
    }
}

// `swapped`: the file's byte order differs from this machine's.
template <typename Integer>
Integer load(const std::byte* at, bool swapped) {
    static_assert(std::is_integral_v<Integer>);
    Integer value;
    std::memcpy(&value, at, sizeof value);
    return swapped ? swap_bytes(value) : value;
}

template <typename Integer>
Integer load_little(const std::byte* at) {
    return load<Integer>(at, std::endian::native != std::endian::little);
}

}  // namespace acapella::input
