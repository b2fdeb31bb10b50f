// ARP and RARP, RFC 826.
#include "dissect/dissectors.hpp"

namespace acapella {

Next dissect_arp(Walk& walk) {
    constexpr std::uint16_t kAx25 = 3;  // tshark has separate dissectors for AX.25 and ATM
    constexpr std::uint16_t kAtm = 19;
    walk.push(Token::arp);
    if (!walk.at.has(8)) {
        walk.out.sure = false;
        return walk.truncated(Issue::truncated_arp);
    }
    const std::uint16_t hardware = walk.at.be16(0);
    if (hardware == kAx25 || hardware == kAtm) walk.out.sure = false;
    const std::size_t length = 8 + 2 * (std::size_t{walk.at.u8(4)} + walk.at.u8(5));
    if (!walk.at.has(length)) return walk.truncated(Issue::truncated_arp);
    walk.limit(length);
    return Walk::stop();
}

}  // namespace acapella
