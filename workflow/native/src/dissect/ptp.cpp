// PTP, IEEE 1588, over Ethernet or UDP.
#include "dissect/dissectors.hpp"

namespace acapella {

Next dissect_ptp(Walk& walk) {
    walk.push(Token::ptp);
    const bool version1 = walk.at.be16(0) == 1;
    const bool version2 = (walk.at.u8(1) & 0x0f) == 2;
    if (!version1 && !version2) walk.out.sure = false;
    return Walk::stop();
}

}  // namespace acapella
