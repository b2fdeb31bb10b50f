// ICMP, RFC 792, and ICMPv6, RFC 4443. Quoted packets add tokens, as in tshark, but do not change the flow
// key.
#include "dissect/dissectors.hpp"

namespace acapella {
namespace {

constexpr std::size_t kIcmpHeader = 8;

Next quote(Walk& walk, Next packet) {
    walk.quoted = true;
    walk.out.payload = {};
    walk.at.skip(kIcmpHeader);
    if (walk.at.reported() == 0) return Walk::stop();
    if (!walk.at.has(1)) return walk.stop_as_unsure();
    return packet;
}

}  // namespace

Next dissect_icmp(Walk& walk) {
    walk.push(Token::icmp);
    if (!walk.at.has(kIcmpHeader)) return walk.truncated(Issue::truncated_icmp);
    const std::uint8_t type = walk.at.u8(0);
    walk.payload_length(static_cast<std::uint32_t>(walk.at.reported() - kIcmpHeader));
    switch (type) {
        case 3:   // destination unreachable
        case 4:   // source quench
        case 5:   // redirect
        case 11:  // time exceeded
        case 12:  // parameter problem
            return quote(walk, Next::ipv4);
        case 0:  // echo reply
        case 8:  // echo
            walk.at.skip(kIcmpHeader);
            return walk.stop_at_payload();
        case 10:
        case 13:
        case 14:
        case 15:
        case 16:
        case 17:
        case 18:
            return Walk::stop();
        default:
            walk.at.skip(kIcmpHeader);
            return walk.stop_at_payload();
    }
}

Next dissect_icmpv6(Walk& walk) {
    walk.push(Token::icmpv6);
    if (!walk.at.has(4)) return walk.truncated(Issue::truncated_icmpv6);
    const std::uint8_t type = walk.at.u8(0);
    if (walk.at.reported() >= kIcmpHeader)
        walk.payload_length(static_cast<std::uint32_t>(walk.at.reported() - kIcmpHeader));
    switch (type) {
        case 1:
        case 2:
        case 3:
        case 4:
            return walk.at.has(kIcmpHeader) ? quote(walk, Next::ipv6)
                                            : walk.truncated(Issue::truncated_icmpv6);
        case 128:
        case 129:
            if (!walk.at.has(kIcmpHeader)) return walk.truncated(Issue::truncated_icmpv6);
            walk.at.skip(kIcmpHeader);
            return walk.stop_at_payload();
        case 130:
        case 131:
        case 132:
        case 133:
        case 134:
        case 135:
        case 136:
        case 143:
            return Walk::stop();
        case 137:  // a redirect quotes a packet in an option
        case 160:
        case 161:  // extended echo: tshark calls its ICMP dissector
            return walk.stop_as_unsure();
        default:
            return walk.stop_at_payload();
    }
}

}  // namespace acapella
