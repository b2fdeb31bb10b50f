// PIM, RFC 7761; a Register message carries a packet (section 4.9.3).
#include "dissect/dissectors.hpp"

namespace acapella {

Next dissect_pim(Walk& walk) {
    walk.push(Token::pim);
    if (!walk.at.has(8)) return Walk::stop();
    if (walk.at.u8(0) != 0x21) return Walk::stop();
    walk.at.skip(8);
    if (!walk.at.has(1)) return Walk::stop();
    switch (walk.at.u8(0) >> 4) {
        case 4:
            return Next::ipv4;
        case 6:
            return Next::ipv6;
        default:
            return walk.stop_as_unsure();
    }
}

}  // namespace acapella
