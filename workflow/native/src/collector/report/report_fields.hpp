// The layout of flow reports, generated from schemas/report_formats.tsv. Numbers are big-endian.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace acapella::collector {

template <std::size_t Bytes>
using Unsigned =
    std::conditional_t<Bytes == 1, std::uint8_t,
                       std::conditional_t<Bytes == 2, std::uint16_t,
                                          std::conditional_t<Bytes == 4, std::uint32_t, std::uint64_t>>>;

template <typename Integer>
Integer from_big_endian(const std::byte* at) {
    Integer value;
    std::memcpy(&value, at, sizeof value);
    if constexpr (sizeof value == 2) value = __builtin_bswap16(value);
    if constexpr (sizeof value == 4) value = __builtin_bswap32(value);
    if constexpr (sizeof value == 8) value = __builtin_bswap64(value);
    return value;
}

// A number in a complete report.
template <std::size_t Bytes>
struct Field {
    std::size_t offset;

    Unsigned<Bytes> of(const std::byte* report) const {
        return from_big_endian<Unsigned<Bytes>>(report + offset);
    }
};

template <>
struct Field<16> {
    std::size_t offset;
};

// An array of fields.
template <std::size_t Bytes, std::size_t Count>
struct Fields {
    static constexpr std::size_t kCount = Count;
    std::size_t offset;

    Unsigned<Bytes> of(const std::byte* report, std::size_t i) const {
        return from_big_endian<Unsigned<Bytes>>(report + offset + i * Bytes);
    }
    // Returns the estimate of a count-min sketch: the smallest cell, because no cell is below the flow's
    // count.
    Unsigned<Bytes> smallest(const std::byte* report) const {
        Unsigned<Bytes> value = of(report, 0);
        for (std::size_t i = 1; i < Count; ++i) value = of(report, i) < value ? of(report, i) : value;
        return value;
    }
};

#include "reports.inc"

}  // namespace acapella::collector
