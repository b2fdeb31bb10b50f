// GRE, RFC 1701, 2784 and 2890; NVGRE, RFC 7637; PPTP, RFC 2637; ERSPAN types I to III; EtherIP, RFC 3378.
#include "dissect/dissectors.hpp"
#include "dissect/gre_key.hpp"

namespace acapella {
namespace {

using gre::kErspan;
using gre::kErspan3;
using gre::kKey;
using gre::kPptp;
using gre::kRouting;
using gre::kSequence;
using gre::kTransparentEthernet;
using gre::kVersion;

void add_key(Walk& walk, std::uint16_t flags, std::uint16_t type) {
    const std::size_t at = gre::key_offset(flags);
    if ((flags & kKey) == 0 || !walk.at.has(at + 4)) return;
    const std::uint32_t key = walk.at.be32(at);
    if (type == kPptp) return walk.tunnel(TunnelType::pptp_call, key & 0xffff);  // after the payload length
    const Tunnel found = gre::key_identifier(flags, type, key);
    walk.tunnel(found.type, found.id);
    const std::uint8_t flow = gre::flow_id(found.type, key);
    if (flow != 0) walk.tunnel(TunnelType::nvgre_flow_id, flow);
}

// draft-foschiano-erspan sections 4.2 and 4.3. tshark decodes more of type III than the core.
Next erspan(Walk& walk, bool sequenced) {
    constexpr std::uint16_t kPlatform = 0x0001;  // type III: a subheader of 8 bytes follows
    constexpr std::uint16_t kFrameType = 0x7c00;
    walk.push(Token::erspan);
    if (!sequenced) return Next::ethernet;  // type I has no header
    if (!walk.at.has(4)) return walk.truncated(Issue::truncated_erspan);
    const std::uint8_t version = walk.at.u8(0) >> 4;
    if (version != 1 && version != 2) return walk.stop_as_unsure();
    walk.tunnel(TunnelType::erspan_session, walk.at.be16(2) & 0x03ffU);
    if (version == 2) walk.out.sure = false;
    const std::uint16_t type_3_flags = version == 2 ? walk.at.be16(10) : std::uint16_t{0};
    const std::size_t header = version == 1 ? 8 : type_3_flags & kPlatform ? 20 : 12;
    if (!walk.at.has(header)) return walk.truncated(Issue::truncated_erspan);
    walk.at.skip(header);
    return type_3_flags & kFrameType ? walk.stop_at_payload() : Next::ethernet;
}

}  // namespace

Next dissect_gre(Walk& walk) {
    walk.push(Token::gre);
    if (!walk.at.has(1)) walk.out.sure = false;
    if (!walk.at.has(4)) return walk.truncated(Issue::truncated_gre);
    const std::uint16_t flags = walk.at.be16(0);
    const std::uint16_t type = walk.at.be16(2);
    add_key(walk, flags, type);
    if ((flags & kRouting) && (flags & kVersion))
        return walk.stop_as_unsure();  // RFC 2637 section 4.1: version 1 has no source routes
    const std::size_t header = gre::header_end(walk.at, flags);
    if (header == 0) return walk.truncated(Issue::truncated_gre);
    walk.at.skip(header);
    if (!walk.at.has(1)) walk.out.sure = false;
    if (walk.at.reported() == 0) return walk.stop_as_unsure();
    switch (type) {
        case 0x0800:
            return Next::ipv4;
        case 0x86dd:
            return Next::ipv6;
        case 0x8847:
        case 0x8848:
            return Next::mpls;
        case kTransparentEthernet:
            return Next::ethernet;
        case 0x0806:
            return Next::arp;
        case 0x2000:
            walk.push(Token::cdp);
            return walk.stop_at_payload();
        case 0x00fe:
            return Next::osi;
        case kErspan:
            return erspan(walk, (flags & kSequence) != 0);
        case kErspan3:
            return erspan(walk, true);
        case kPptp:  // RFC 2637 section 4.4; tshark decodes more of PPP than the core
            walk.out.sure = false;
            if (walk.at.be16(0) == kPppAddressAndControl) walk.at.skip(2);
            return Next::ppp;
        // These may carry layers 2 to 4 that the core does not decode: bonding, NHRP, bridging, frame relay,
        // WCCP, MetaData, NSH.
        case 0x0101:
        case 0x2001:
        case 0x6400:
        case 0x6559:
        case 0x883e:
        case 0x8881:
        case 0x88d2:
        case 0x8909:
        case 0x894f:
        case 0xb7ea:
            return walk.stop_as_unsure();
        default:  // 0x8200 to 0x83ff: Aruba WLAN
            return (type >> 8 == 0x82 || type >> 8 == 0x83) ? walk.stop_as_unsure() : walk.stop_at_payload();
    }
}

Next dissect_etherip(Walk& walk) {
    walk.push(Token::etherip);
    if (!walk.at.has(2) || walk.at.be16(0) != 0x3000) return walk.stop_as_unsure();
    walk.at.skip(2);
    return Next::ethernet;
}

}  // namespace acapella
