// PPPoE sessions (RFC 2516), and PPP with IP or MPLS (RFC 1661).
#include "dissect/dissectors.hpp"

namespace acapella {

Next dissect_pppoe_session(Walk& walk) {
    walk.push(Token::pppoes);
    if (!walk.at.has(6)) return walk.truncated(Issue::truncated_pppoe);
    walk.tunnel(TunnelType::pppoe_session, walk.at.be16(2));
    if (walk.at.be16(4) == 0) walk.out.sure = false;
    walk.limit(std::size_t{6} + walk.at.be16(4));
    walk.at.skip(6);
    walk.link_header(0);
    return Next::ppp;
}

Next dissect_ppp(Walk& walk) {
    if (!walk.at.has(2)) return walk.truncated(Issue::truncated_ppp);
    walk.push(Token::ppp);
    std::uint16_t protocol = walk.at.u8(0);
    if (protocol & 1) {  // compressed to one byte, RFC 1661 section 6.5
        walk.at.skip(1);
    } else {
        protocol = walk.at.be16(0);
        walk.at.skip(2);
    }
    walk.link_header(0);
    switch (protocol) {
        case 0x0021:
            return Next::ipv4;
        case 0x0057:
            return Next::ipv6;
        case 0x0281:
        case 0x0283:
            return Next::mpls;
        default:
            return protocol >= 0x8000 ? walk.stop_at_payload() : walk.stop_as_unsure();
    }
}

}  // namespace acapella
