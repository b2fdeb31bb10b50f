// CRC-32 of IEEE 802.3 (polynomial 0x04c11db7, reflected), as the ICRC of RoCEv2 has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace acapella::collector {

inline constexpr std::size_t kCrcOnes = 8;
inline constexpr std::size_t kCrcMask = 56;

// The remainder's register after `data`; starts with all ones, and its complement is the CRC. Uses carry-less
// multiplication where the processor has it.
std::uint32_t crc32_update(std::uint32_t state, std::span<const std::byte> data);
// The register after kCrcOnes bytes of ones and `data`, of which the first bytes count with the bits of
// `mask` set. `data` is no shorter than the mask.
std::uint32_t crc32_of_masked(std::span<const std::byte, kCrcMask> mask, std::span<const std::byte> data);
// The same from tables alone, for comparison.
std::uint32_t crc32_update_by_tables(std::uint32_t state, std::span<const std::byte> data);

}  // namespace acapella::collector
