// OSI network layer protocols, distinguished by their first byte (ISO/IEC TR 9577); IS-IS is ISO/IEC 10589.
#include "dissect/dissectors.hpp"

namespace acapella {
namespace {

Next isis(Walk& walk) {
    walk.push(Token::isis);
    if (!walk.at.has(8)) return walk.truncated(Issue::truncated_isis);
    const std::uint8_t header_length = walk.at.u8(1);
    const auto pdu = [&](Token token, std::uint8_t length) {
        walk.push(token);
        if (header_length != length) walk.out.sure = false;
    };
    switch (walk.at.u8(4) & 0x1f) {
        case 15:
        case 16:
            pdu(Token::isis_hello, 27);
            break;
        case 17:
            pdu(Token::isis_hello, 20);
            break;
        case 18:
        case 20:
            pdu(Token::isis_lsp, 27);
            break;
        case 24:
        case 25:
            pdu(Token::isis_csnp, 33);
            break;
        case 26:
        case 27:
            pdu(Token::isis_psnp, 17);
            break;
        default:
            return walk.stop_at_payload();
    }
    return Walk::stop();
}

}  // namespace

Next dissect_osi(Walk& walk) {
    walk.push(Token::osi);
    switch (walk.at.u8(0)) {
        case 0x83:
            return isis(walk);
        case 0xcc:
        case 0x8e:
        case 0xcf:
            return walk.stop_as_unsure();  // NLPIDs of IPv4, IPv6 and PPP
        default:
            return walk.stop_at_payload();
    }
}

}  // namespace acapella
