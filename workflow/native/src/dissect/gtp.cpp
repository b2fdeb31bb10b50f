// GTP: user data (3GPP TS 29.281 clause 5), signaling (TS 29.060 and 29.274).
#include "dissect/dissectors.hpp"

namespace acapella {
namespace {

constexpr std::uint8_t kVersion1 = 0x30;  // version 1, protocol type GTP
constexpr std::uint8_t kOptional = 0x07;  // any of E, S, PN
constexpr std::uint8_t kExtension = 0x04;
constexpr std::uint8_t kGPdu = 255;

// GTPv1-C message types accepted by tshark; it rejects others.
bool is_signaling(std::uint8_t type) {
    constexpr std::uint8_t kRanges[][2] = {{1, 7},     {16, 37},   {48, 62},   {70, 70},  {96, 105},
                                           {112, 121}, {128, 129}, {240, 241}, {254, 254}};
    for (const auto& [first, last] : kRanges) {
        if (type >= first && type <= last) return true;
    }
    return false;
}

// Skips extension headers (clause 5.2.1). Returns false if one is truncated or has length 0.
bool skip_extensions(Cursor& at, std::uint8_t type) {
    while (type != 0) {
        const std::size_t length = at.u8(0) * std::size_t{4};
        if (length == 0 || !at.has(length)) return false;
        type = at.u8(length - 1);
        at.skip(length);
    }
    return true;
}

// No field of GTP-U distinguishes an Ethernet frame (PDU session type Ethernet, TS 23.501 clause 5.8.2.2)
// from IP or PPP; only signaling does. So a MAC address may look like the start of an IP packet.
bool looks_like_ethernet(const Cursor& at) {
    constexpr std::size_t kType = 12;
    const std::uint16_t type = at.be16(kType);
    return at.has(kType + 2) && (type == 0x0800 || type == 0x86dd || type == 0x0806 || type == 0x8100);
}

}  // namespace

Next dissect_gtp(Walk& walk) {
    walk.push(Token::gtp);
    if (!walk.at.has(8)) {
        walk.truncated(Issue::truncated_gtp);
        return walk.stop_as_unsure();
    }
    const std::uint8_t flags = walk.at.u8(0);
    if (flags >> 5 == 2) return walk.stop_at_payload();  // GTPv2-C
    if ((flags & 0xf0) != kVersion1) return walk.stop_as_unsure();
    if (walk.at.u8(1) != kGPdu)
        return is_signaling(walk.at.u8(1)) ? walk.stop_at_payload() : walk.stop_as_unsure();
    walk.tunnel(TunnelType::gtp_teid, walk.at.be32(4));
    walk.at.limit(std::size_t{8} + walk.at.be16(2));
    const std::size_t header = flags & kOptional ? 12 : 8;
    if (!walk.at.has(header)) return walk.truncated(Issue::truncated_gtp);
    const std::uint8_t extension = flags & kExtension ? walk.at.u8(11) : std::uint8_t{0};
    walk.at.skip(header);
    if (!skip_extensions(walk.at, extension)) return walk.truncated(Issue::truncated_gtp);
    if (!walk.at.has(1)) {
        if (walk.at.reported() > 0) walk.truncated(Issue::truncated_gtp);
        return walk.stop_as_unsure();
    }
    const std::uint8_t first = walk.at.u8(0);
    if (first >= 0x45 && first <= 0x4e) return Next::ipv4;
    if (first >> 4 == 6) return Next::ipv6;
    if (walk.innermost || !looks_like_ethernet(walk.at)) return walk.stop_as_unsure();
    walk.out.sure = false;
    return Next::ethernet;
}

}  // namespace acapella
