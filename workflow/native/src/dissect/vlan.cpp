// IEEE 802.1Q customer tags (0x8100, 0x9100) and 802.1ad service tags (0x88a8).
#include "dissect/dissectors.hpp"

namespace acapella {
namespace {

constexpr std::size_t kTag = 4;
constexpr std::uint16_t kMaxLength = 1500;

Next tag(Walk& walk, Token token) {
    walk.push(token);
    if (!walk.at.has(kTag)) return walk.cut(Issue::truncated_vlan);
    Dissection& out = walk.out;
    if (!walk.quoted) {
        if (out.vlan_count < kMaxVlans) {
            out.vlans[out.vlan_count++] = walk.at.be16(0) & 0x0fff;
        } else {
            walk.overflow();
        }
    }
    const std::uint16_t type = walk.at.be16(2);
    walk.at.skip(kTag);
    walk.link_header(0);
    const bool service = token == Token::ieee8021ad;
    if (type <= kMaxLength && (!service || walk.innermost)) {  // tshark knows no length in a service tag
        if (service) walk.out.sure = false;
        const bool raw_ipx = walk.at.be16(0) == 0xffff && walk.at.has(2);
        walk.link_payload(type);
        walk.limit(type);
        return raw_ipx ? walk.above() : Next::llc;
    }
    walk.push(Token::ethertype);
    return walk.ethertype(type);
}

}  // namespace

Next dissect_vlan(Walk& walk) { return tag(walk, Token::vlan); }
Next dissect_service_vlan(Walk& walk) { return tag(walk, Token::ieee8021ad); }

}  // namespace acapella
