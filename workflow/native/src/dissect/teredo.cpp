// Teredo, RFC 4380 section 5.1.1: IPv6 in UDP, after optional authentication and origin indications.
#include "dissect/dissectors.hpp"

namespace acapella {

Next dissect_teredo(Walk& walk) {
    constexpr std::uint16_t kAuthentication = 0x0001;
    constexpr std::uint16_t kOrigin = 0x0000;
    walk.push(Token::teredo);
    if (!walk.at.has(8)) {
        walk.truncated(Issue::truncated_teredo);
        return walk.stop_as_unsure();
    }
    if (walk.at.be16(0) == kAuthentication) {
        const std::size_t length = 13 + std::size_t{walk.at.u8(2)} + walk.at.u8(3);
        if (!walk.at.has(length + 8)) return walk.stop_as_unsure();
        walk.at.skip(length);
    }
    if (walk.at.be16(0) == kOrigin) walk.at.skip(8);
    return walk.at.u8(0) >> 4 == 6 ? Next::ipv6 : walk.stop_as_unsure();
}

}  // namespace acapella
