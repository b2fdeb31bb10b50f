// Provider backbone bridging, IEEE 802.1Q-2018 clause 9.7 (802.1ah): an I-TAG and the customer's Ethernet
// header.
#include "dissect/dissectors.hpp"

namespace acapella {

// tshark reads a single service tag (the B-TAG) and a following I-TAG as one header, and prints no token for
// the customer's addresses.
Next dissect_pbb(Walk& walk) {
    constexpr std::size_t kServiceId = 1;  // 24 bits, after priority and flags
    constexpr std::size_t kTag = 4;
    constexpr std::size_t kType = 16;
    constexpr std::size_t kHeader = 18;
    constexpr std::uint32_t kEthernet = 14;  // the customer's addresses and type
    const Dissection& out = walk.out;
    const bool after_tag = out.token_count > 0 && out.tokens[out.token_count - 1] == Token::ieee8021ad;
    if (!after_tag) walk.push(Token::ieee8021ah);
    if (walk.at.has(kTag)) walk.tunnel(TunnelType::pbb_isid, walk.at.be24(kServiceId));
    if (!walk.at.has(kHeader)) return walk.truncated(Issue::truncated_pbb);
    const std::uint16_t type = walk.at.be16(kType);
    walk.at.skip(kHeader);
    walk.link_header(kEthernet);
    walk.push(Token::ethertype);
    return walk.ethertype(type);
}

}  // namespace acapella
