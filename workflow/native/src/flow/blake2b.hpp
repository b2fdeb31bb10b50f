// BLAKE2b with a 128-bit digest and without a key (RFC 7693), like hashlib.blake2b(data, digest_size=16) in
// Python.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace acapella {

std::array<std::byte, 16> blake2b_128(std::span<const std::byte> data);

}  // namespace acapella
