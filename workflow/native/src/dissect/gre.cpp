// GRE, RFC 2784 and 2890; ERSPAN type II; EtherIP, RFC 3378.
#include "dissect/dissectors.hpp"

namespace acapella {
namespace {

constexpr std::uint16_t kChecksum = 0x8000;
constexpr std::uint16_t kRouting = 0x4000;
constexpr std::uint16_t kKey = 0x2000;
constexpr std::uint16_t kSequence = 0x1000;
constexpr std::uint16_t kAcknowledgment = 0x0080;  // version 1, RFC 2637 4.1
constexpr std::uint16_t kVersion = 0x0007;
constexpr std::uint16_t kErspan = 0x88be;

std::size_t header_length(std::uint16_t flags) {
    std::size_t length = 4;
    for (const std::uint16_t flag : {kChecksum, kKey, kSequence}) length += flags & flag ? 4 : 0;
    const bool acknowledges = (flags & kVersion) == 1 && (flags & kAcknowledgment);
    return length + (acknowledges ? 4 : 0);
}

Next erspan(Walk& walk, bool sequenced) {
    walk.push(Token::erspan);
    if (!sequenced) return Next::ethernet;  // type I has no header
    if (!walk.at.has(8)) return walk.cut(Issue::truncated_erspan);
    if (walk.at.u8(0) >> 4 != 1) return walk.unsure();
    walk.at.skip(8);
    return Next::ethernet;
}

}  // namespace

Next dissect_gre(Walk& walk) {
    walk.push(Token::gre);
    if (!walk.at.has(1)) walk.out.sure = false;
    if (!walk.at.has(4)) return walk.cut(Issue::truncated_gre);
    const std::uint16_t flags = walk.at.be16(0);
    const std::uint16_t type = walk.at.be16(2);
    if (flags & kRouting) return walk.unsure();
    const std::size_t header = header_length(flags);
    if (!walk.at.has(header)) return walk.cut(Issue::truncated_gre);
    walk.at.skip(header);
    if (!walk.at.has(1)) return walk.unsure();
    switch (type) {
        case 0x0800:
            return Next::ipv4;
        case 0x86dd:
            return Next::ipv6;
        case 0x8847:
        case 0x8848:
            return Next::mpls;
        case 0x6558:
            return Next::ethernet;
        case 0x0806:
            return Next::arp;
        case 0x2000:
            walk.push(Token::cdp);
            return walk.above();
        case 0x00fe:
            return Next::osi;
        case kErspan:
            return erspan(walk, (flags & kSequence) != 0);
        // Carriers of layers 2 to 4 that the core does not decode: bonding, NHRP, ERSPAN III, bridging, frame
        // relay, PPP, WCCP, MetaData, NSH.
        case 0x0101:
        case 0x2001:
        case 0x22eb:
        case 0x6400:
        case 0x6559:
        case 0x880b:
        case 0x883e:
        case 0x8881:
        case 0x88d2:
        case 0x8909:
        case 0x894f:
        case 0xb7ea:
            return walk.unsure();
        default:
            return (type >> 8 == 0x82 || type >> 8 == 0x83) ? walk.unsure() : walk.above();  // Aruba's WLAN
    }
}

Next dissect_etherip(Walk& walk) {
    walk.push(Token::etherip);
    if (!walk.at.has(2) || walk.at.be16(0) != 0x3000) return walk.unsure();
    walk.at.skip(2);
    return Next::ethernet;
}

}  // namespace acapella
