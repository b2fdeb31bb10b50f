// What the key of a GRE header identifies.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tunnels.hpp"

namespace acapella::gre {

inline constexpr std::uint16_t kChecksum = 0x8000;
inline constexpr std::uint16_t kRouting = 0x4000;
inline constexpr std::uint16_t kKey = 0x2000;
inline constexpr std::uint16_t kSequence = 0x1000;
inline constexpr std::uint16_t kVersion = 0x0007;
inline constexpr std::uint16_t kPptp = 0x880b;
inline constexpr std::uint16_t kTransparentEthernet = 0x6558;
inline constexpr std::uint16_t kErspan = 0x88be;
inline constexpr std::uint16_t kErspan3 = 0x22eb;

inline constexpr std::uint16_t kAcknowledgment = 0x0080;  // version 1, RFC 2637 4.1

// Without source routes.
constexpr std::size_t header_length(std::uint16_t flags) {
    std::size_t length = 4;
    for (const std::uint16_t flag : {kChecksum, kKey, kSequence}) length += flags & flag ? 4 : 0;
    const bool acknowledges = (flags & kVersion) == 1 && (flags & kAcknowledgment);
    return length + (acknowledges ? 4 : 0);
}

// RFC 7637 section 3.2: if nothing but a key stands before an Ethernet frame, the key's upper 24 bits are a
// tenant's VSID and the lower 8 bits tell flows of the tenant apart. VSIDs below 0x1000 are reserved, so such
// a key is a number given to a plain GRE tunnel (RFC 2890), all of whose bits count. Not of PPTP.
constexpr Tunnel key_identifier(std::uint16_t flags, std::uint16_t type, std::uint32_t key) {
    constexpr std::uint32_t kFirstVsid = 0x1000;
    const bool nvgre = type == kTransparentEthernet &&
                       (flags & (kChecksum | kRouting | kSequence | kVersion)) == 0 && key >> 8 >= kFirstVsid;
    return {.id = nvgre ? key >> 8 : key,
            .position = 0,
            .type = nvgre ? TunnelType::nvgre_vsid : TunnelType::gre_key};
}

}  // namespace acapella::gre
