// SHA-1 (FIPS 180-4) of a message of at most 55 bytes, which fits in one block.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace acapella {

inline constexpr std::size_t kSha1Bytes = 20;
inline constexpr std::size_t kSha1Longest = 55;

// Throws std::length_error if the message is longer.
std::array<std::byte, kSha1Bytes> sha1_of_short(std::span<const std::byte> message);

}  // namespace acapella
