// IEEE 802.1Q customer tags (0x8100), nonstandard QinQ tags (0x9100), and 802.1ad service tags (0x88a8).
#include "dissect/dissectors.hpp"

namespace acapella {
namespace {

constexpr std::size_t kTag = 4;
constexpr std::size_t kTci = 2;  // Tag Control Information: priority, drop eligibility and VLAN ID
constexpr std::uint16_t kServiceTag = 0x88a8;
constexpr std::uint16_t kServiceInstanceTag = 0x88e7;  // the I-TAG of 802.1ah

void add_id(Walk& walk, std::size_t offset) {
    Dissection& out = walk.out;
    if (walk.quoted) return;
    if (out.vlan_count < kMaxVlans) {
        out.vlans[out.vlan_count++] = walk.at.be16(offset) & 0x0fff;
    } else {
        walk.overflow();
    }
}

// Selects the dissector after a header of `length` bytes whose last two bytes are `type`.
Next after_tag(Walk& walk, std::size_t length, bool service) {
    const std::uint16_t type = walk.at.be16(length - 2);
    walk.at.skip(length);
    walk.link_header(0);
    // tshark does not accept a length field after a service tag
    if (type <= kMax8023Length && (!service || walk.innermost)) {
        if (service) walk.out.sure = false;
        const bool raw_ipx = walk.at.be16(0) == 0xffff && walk.at.has(2);
        walk.link_payload(type);
        walk.limit(type);
        return raw_ipx ? walk.stop_at_payload() : Next::llc;
    }
    // tshark reads a single service tag and a following I-TAG as one header.
    if (service && length == kTag && type == kServiceInstanceTag) return Next::pbb;
    walk.push(Token::ethertype);
    return walk.ethertype(type);
}

}  // namespace

Next dissect_vlan(Walk& walk) {
    walk.push(Token::vlan);
    if (walk.at.has(kTci)) add_id(walk, 0);
    return walk.at.has(kTag) ? after_tag(walk, kTag, false) : walk.truncated(Issue::truncated_vlan);
}

// tshark reads two adjacent service tags as one header, and prints their ids only if both were captured.
Next dissect_service_vlan(Walk& walk) {
    walk.push(Token::ieee8021ad);
    if (!walk.at.has(kTag)) return walk.truncated(Issue::truncated_vlan);
    const bool is_double = walk.at.be16(kTag - 2) == kServiceTag;
    const std::size_t length = is_double ? 2 * kTag : kTag;
    if (walk.at.has(length - 2)) {
        add_id(walk, 0);
        if (is_double) add_id(walk, kTag);
    }
    return walk.at.has(length) ? after_tag(walk, length, true) : walk.truncated(Issue::truncated_vlan);
}

}  // namespace acapella
