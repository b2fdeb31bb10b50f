// IGMP, RFC 2236 and RFC 3376. tshark prints `igmp` for the family and again for the version.
#include "dissect/dissectors.hpp"

namespace acapella {

Next dissect_igmp(Walk& walk) {
    walk.push(Token::igmp);
    if (!walk.at.has(1)) return walk.truncated(Issue::truncated_igmp);
    switch (walk.at.u8(0)) {
        case 0x11:  // membership query
        case 0x12:
        case 0x16:
        case 0x22:  // reports of versions 1, 2, 3
        case 0x17:  // leave
            walk.push(Token::igmp);
            walk.out.repeats[walk.out.token_count - 1] = 0;
            return Walk::stop();
        case 0x13:
            return walk.stop_at_payload();  // DVMRP
        default:
            return walk.stop_as_unsure();
    }
}

}  // namespace acapella
