// UDP encapsulation of ESP, RFC 3948.
#include "dissect/dissectors.hpp"

namespace acapella {

Next dissect_udpencap(Walk& walk) {
    walk.push(Token::udpencap);
    if (walk.at.has(1) && walk.at.reported() == 1 && walk.at.u8(0) == 0xff)
        return Walk::stop();  // keepalive, section 2.3
    if (!walk.at.has(4)) {
        walk.truncated(Issue::truncated_udpencap);
        return walk.stop_as_unsure();
    }
    if (walk.at.be32(0) == 0) {  // the non-ESP marker, section 2.2
        walk.at.skip(4);
        return walk.stop_at_payload();
    }
    walk.push(Token::esp);
    return Walk::stop();
}

}  // namespace acapella
