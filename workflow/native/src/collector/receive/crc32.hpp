// CRC-32 of IEEE 802.3 (polynomial 0x04c11db7, reflected), as used by the ICRC of RoCEv2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace acapella::collector {

inline constexpr std::size_t kCrcOnes = 8;
inline constexpr std::size_t kCrcMask = 56;

// Returns the CRC register after `data`. The initial value is all ones, and the complement of the register is
// the CRC. Uses carry-less multiplication if the CPU supports it.
std::uint32_t crc32_update(std::uint32_t state, std::span<const std::byte> data);
// Returns the register after kCrcOnes bytes of ones and `data`, whose first bytes are ORed with `mask`.
// `data` must be at least as long as the mask.
std::uint32_t crc32_of_masked(std::span<const std::byte, kCrcMask> mask, std::span<const std::byte> data);
// Like crc32_update(), but uses only tables. For comparison.
std::uint32_t crc32_update_by_tables(std::uint32_t state, std::span<const std::byte> data);

}  // namespace acapella::collector
