// CRC-32 of IEEE 802.3 (polynomial 0x04c11db7, reflected), as the ICRC of RoCEv2 has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace acapella::collector {

// The remainder's register after `data`; starts with all ones, and its complement is the CRC. Uses carry-less
// multiplication where the processor has it.
std::uint32_t crc32_update(std::uint32_t state, std::span<const std::byte> data);
// The same from tables alone, for comparison.
std::uint32_t crc32_update_by_tables(std::uint32_t state, std::span<const std::byte> data);

}  // namespace acapella::collector
