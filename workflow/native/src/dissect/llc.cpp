// IEEE 802.2 LLC, SNAP (IEEE 802-2014 clause 9.5), and protocols with Cisco's OUI.
#include "dissect/dissectors.hpp"

namespace acapella {
namespace {

constexpr std::uint8_t kUnnumberedInformation = 0x03;
constexpr std::uint8_t kSapSnap = 0xaa;
constexpr std::uint8_t kSapStp = 0x42;
constexpr std::uint8_t kSapIp = 0x06;

constexpr std::uint32_t kOuiEthernet = 0x000000;
constexpr std::uint32_t kOuiCisco = 0x00000c;
constexpr std::uint32_t kOuiCisco90 = 0x0000f8;  // cable bridging: an ethertype follows
constexpr std::uint32_t kOuiBridged = 0x0080c2;  // RFC 2684 section 5.2: a whole Ethernet frame may follow

Next leaf(Walk& walk, Token token) {
    walk.push(token);
    return Walk::stop();
}

Next leaf_with_payload(Walk& walk, Token token) {
    walk.push(token);
    return walk.stop_at_payload();
}

Next cisco(Walk& walk, std::uint16_t pid) {
    switch (pid) {
        case 0x2000:
            return leaf_with_payload(walk, Token::cdp);
        case 0x2003:
            return leaf_with_payload(walk, Token::vtp);
        case 0x2004:
            return leaf_with_payload(walk, Token::dtp);
        case 0x0111:
            return leaf_with_payload(walk, Token::udld);
        case 0x0108:
        case 0x0109:
        case 0x010b:
        case 0x010c:
            return leaf(walk, Token::stp);
        default:
            return walk.stop_at_payload();
    }
}

Next snap(Walk& walk) {
    if (!walk.at.has(8)) return walk.truncated(Issue::truncated_llc);
    const std::uint32_t oui = walk.at.be24(3);
    const std::uint16_t pid = walk.at.be16(6);
    walk.at.skip(8);
    walk.link_header(0);
    if (oui == kOuiEthernet || oui == kOuiCisco90) return walk.ethertype(pid);
    if (oui == kOuiCisco) return cisco(walk, pid);
    if (oui == kOuiBridged) return walk.stop_as_unsure();
    return walk.stop_at_payload();
}

}  // namespace

Next dissect_llc(Walk& walk) {
    walk.push(Token::llc);
    if (!walk.at.has(3)) return walk.truncated(Issue::truncated_llc);
    const std::uint8_t destination = walk.at.u8(0);
    const std::uint8_t control = walk.at.u8(2);
    if (destination == kSapSnap && walk.at.u8(1) == kSapSnap && control == kUnnumberedInformation)
        return snap(walk);
    const bool unnumbered = (control & 0x03) == 0x03;
    walk.at.skip(unnumbered ? 3 : 4);  // I and S frames carry two control bytes
    walk.link_header(0);
    // tshark decodes the payload of some information frames
    if ((control & 1) == 0) return walk.stop_as_unsure();
    if (control != kUnnumberedInformation || walk.at.reported() == 0) return walk.stop_at_payload();
    switch (destination) {
        case kSapStp:
            return leaf(walk, Token::stp);
        case kSapIp:
            return Next::ipv4;
        case 0x14:
        case 0x20:
        case 0x34:
        case 0x54:
        case 0xfe:
            return Next::osi;
        case 0x7e:
        case 0x80:  // X.25 and 3Com carry ethertypes
        case kSapSnap:
            return walk.stop_as_unsure();
        default:
            return walk.stop_at_payload();
    }
}

}  // namespace acapella
