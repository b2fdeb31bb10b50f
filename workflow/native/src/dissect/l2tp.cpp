// L2TP over UDP, RFC 2661. Its data messages carry PPP, which tshark decodes.
#include "dissect/dissectors.hpp"

namespace acapella {

Next dissect_l2tp(Walk& walk) {
    constexpr std::uint8_t kControl = 0x80;
    walk.push(Token::l2tp);
    if (!walk.at.has(12)) return walk.unsure();
    const std::uint8_t version = walk.at.u8(1) & 0x0f;
    if ((walk.at.u8(0) & kControl) == 0 || version < 2 || version > 3) return walk.unsure();
    return Walk::done();
}

}  // namespace acapella
