// The key of a GRE header, and its meaning.
#pragma once

#include <cstddef>
#include <cstdint>

#include "frame/cursor.hpp"
#include "frame/tunnels.hpp"

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

inline constexpr std::uint16_t kAcknowledgment = 0x0080;  // version 1, RFC 2637 section 4.1

// Offset of the key. The fields Checksum and Offset are both present if the Checksum Present or the Routing
// Present bit is set (RFC 1701).
constexpr std::size_t key_offset(std::uint16_t flags) { return flags & (kChecksum | kRouting) ? 8 : 4; }

// Length of the header without source routes.
constexpr std::size_t header_length(std::uint16_t flags) {
    std::size_t length = key_offset(flags);
    for (const std::uint16_t flag : {kKey, kSequence}) length += flags & flag ? 4 : 0;
    const bool acknowledges = (flags & kVersion) == 1 && (flags & kAcknowledgment);
    return length + (acknowledges ? 4 : 0);
}

constexpr std::size_t kRouteHeader =
    4;  // of a Source Route Entry (RFC 1701): address family, SRE offset, SRE length

// Length of the Source Route Entry that begins at `offset`; kRouteHeader for the last entry, which is empty
// (RFC 1701).
inline std::size_t route_length(const Cursor& at, std::size_t offset) {
    return kRouteHeader + at.u8(offset + 3);
}
inline bool is_last_route(const Cursor& at, std::size_t offset) {
    return at.be16(offset) == 0 && at.u8(offset + 3) == 0;
}

// Length of the header including source routes; 0 if it is truncated.
inline std::size_t header_end(const Cursor& at, std::uint16_t flags) {
    std::size_t end = header_length(flags);
    for (bool last = (flags & kRouting) == 0; !last; end += route_length(at, end)) {
        if (!at.has(end + kRouteHeader)) return 0;
        last = is_last_route(at, end);
    }
    return at.has(end) ? end : 0;
}

// RFC 7637 section 3.2: if an Ethernet frame follows and the key is the only optional field, the upper 24
// bits of the key are a tenant's VSID and the lower 8 bits its FlowID. VSIDs below 0x1000 are reserved, so a
// key whose upper 24 bits are in that range belongs to a plain GRE tunnel (RFC 2890). Must not be called for
// PPTP.
constexpr Tunnel key_identifier(std::uint16_t flags, std::uint16_t type, std::uint32_t key) {
    constexpr std::uint32_t kFirstVsid = 0x1000;
    const bool nvgre = type == kTransparentEthernet &&
                       (flags & (kChecksum | kRouting | kSequence | kVersion)) == 0 && key >> 8 >= kFirstVsid;
    return {.id = nvgre ? key >> 8 : key,
            .position = 0,
            .type = nvgre ? TunnelType::nvgre_vsid : TunnelType::gre_key};
}

// Returns the FlowID; 0 if the key has none. The FlowID is a separate identifier, because NVGRE cannot be
// distinguished from an Ethernet-over-GRE tunnel with a large key, in which all bits are significant.
constexpr std::uint8_t flow_id(TunnelType type, std::uint32_t key) {
    return type == TunnelType::nvgre_vsid ? static_cast<std::uint8_t>(key) : std::uint8_t{0};
}

}  // namespace acapella::gre
