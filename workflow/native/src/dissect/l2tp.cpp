// L2TP: version 2 over UDP (RFC 2661), version 3 over UDP and over IP (RFC 3931). Data messages of version 2
// carry PPP. In version 3, the cookie length and the payload type are known only from the control connection.
#include <algorithm>

#include "dissect/dissectors.hpp"

namespace acapella {
namespace {

constexpr std::uint16_t kIsControl = 0x8000;
constexpr std::uint16_t kHasLength = 0x4000;
constexpr std::uint16_t kHasSequence = 0x0800;
constexpr std::uint16_t kHasOffset = 0x0200;
constexpr std::uint16_t kVersionMask = 0x000f;

Next truncated(Walk& walk) {
    walk.truncated(Issue::truncated_l2tp);
    return walk.stop_as_unsure();
}

// RFC 2661 section 3.1. tshark decodes more of PPP than the core.
Next data_version_2(Walk& walk, std::uint16_t flags) {
    const std::size_t tunnel = flags & kHasLength ? 4 : 2;
    if (!walk.at.has(tunnel + 4)) return truncated(walk);
    walk.tunnel(TunnelType::l2tp_tunnel, walk.at.be16(tunnel));
    walk.tunnel(TunnelType::l2tp_session, walk.at.be16(tunnel + 2));
    std::size_t header = tunnel + 4 + (flags & kHasSequence ? 4 : 0);
    if (flags & kHasOffset) {
        if (!walk.at.has(header + 2)) return truncated(walk);
        header += 2 + std::size_t{walk.at.be16(header)};
    }
    if (!walk.at.has(header)) return truncated(walk);
    if (flags & kHasLength) walk.at.limit(std::max<std::size_t>(walk.at.be16(2), header));
    walk.at.skip(header);
    if (walk.at.be16(0) == kPppAddressAndControl) walk.at.skip(2);
    walk.out.sure = false;
    if (walk.at.has(1)) return Next::ppp;
    return walk.at.reported() > 0 ? truncated(walk) : walk.stop_at_payload();
}

// RFC 3931 section 4.1. Session 0 is the control connection.
Next data_version_3(Walk& walk, std::size_t offset) {
    if (!walk.at.has(offset + 4)) return truncated(walk);
    const std::uint32_t session = walk.at.be32(offset);
    if (session != 0) walk.tunnel(TunnelType::l2tp_session, session);
    walk.at.skip(offset + 4);
    return walk.stop_as_unsure();
}

}  // namespace

Next dissect_l2tp(Walk& walk) {
    walk.push(Token::l2tp);
    if (!walk.at.has(2)) return truncated(walk);
    const std::uint16_t flags = walk.at.be16(0);
    const std::uint16_t version = flags & kVersionMask;
    if (version < 2 || version > 3) return walk.stop_as_unsure();
    if (flags & kIsControl) return walk.at.has(12) ? Walk::stop() : truncated(walk);
    return version == 2 ? data_version_2(walk, flags) : data_version_3(walk, 4);
}

Next dissect_l2tp_ip(Walk& walk) {
    walk.push(Token::l2tp);
    return data_version_3(walk, 0);
}

}  // namespace acapella
