// Slow protocols, IEEE 802.3-2018 annex 57A; LACP is IEEE 802.1AX.
#include "dissect/dissectors.hpp"

namespace acapella {

Next dissect_slow(Walk& walk) {
    constexpr std::uint8_t kLacp = 1;
    walk.push(Token::slow);
    if (!walk.at.has(1)) return walk.truncated(Issue::truncated_slow);
    if (walk.at.u8(0) != kLacp) return walk.stop_at_payload();
    walk.push(Token::lacp);
    return Walk::stop();
}

}  // namespace acapella
