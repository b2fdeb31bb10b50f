// CRC-32 of IEEE 802.3 (polynomial 0x04c11db7, reflected), as used by the ICRC of RoCEv2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace acapella::collector {

inline constexpr std::size_t kCrcOnes = 8;
inline constexpr std::size_t kCrcMask = 56;

// The CRC register after `data`. It starts with all ones, and its complement is the CRC. Uses carry-less
// multiplication if the CPU has it.
std::uint32_t crc32_update(std::uint32_t state, std::span<const std::byte> data);
// The register after kCrcOnes bytes of ones and `data`, whose first bytes are ORed with `mask`. `data` is at
// least as long as the mask.
std::uint32_t crc32_of_masked(std::span<const std::byte, kCrcMask> mask, std::span<const std::byte> data);
// The same with tables only, for comparison.
std::uint32_t crc32_update_by_tables(std::uint32_t state, std::span<const std::byte> data);

}  // namespace acapella::collector
