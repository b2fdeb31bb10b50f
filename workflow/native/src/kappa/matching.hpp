// Matches the packets of two trials.
#pragma once

#include <cstdint>
#include <span>

#include "kappa/spool.hpp"
#include "kappa/trial/identity.hpp"

namespace acapella::kappa {

// Maximum memory of the table of a match in bytes per packet of A: three slots of 8 bytes and, if identities
// occur more than once, a link to the next packet.
inline constexpr std::uint64_t kMatchBytesPerPacket = 3 * 8 + 4;

inline constexpr std::uint32_t kUnmatched = UINT32_MAX;
inline constexpr std::uint64_t kMaxPackets = (std::uint64_t{1} << 32) - 2;

// Number of packets whose identity occurs more than once in their own trial.
struct Ambiguous {
    std::uint64_t a = 0;
    std::uint64_t b = 0;
};

// Matches the i-th packet with an identity in A with the i-th one in B: `matches[b]` is the packet of A, or
// kUnmatched. Each trial has at most kMaxPackets. Takes O(packets) time. The table takes 12 to 24 bytes of
// memory per packet of A, plus 4 bytes if identities occur more than once; a second table contains the
// packets of B whose identities are not in A.
Ambiguous match(std::span<const Identity> a, std::span<const Identity> b, std::span<std::uint32_t> matches);

}  // namespace acapella::kappa
