// IPv6 and its extension headers, RFC 8200; AH, RFC 4302.
#include "dissect/dissectors.hpp"

namespace acapella {
namespace {

constexpr std::size_t kIpv6Header = 40;

// Ends the dissection inside a truncated extension header. If its first `needed` bytes were captured, they
// show whether another header follows (RFC 8200 section 4.7).
Next truncated_extension(Walk& walk, std::size_t needed, Issue issue = Issue::truncated_ipv6_extension) {
    constexpr std::uint8_t kNoNextHeader = 59;
    if (!walk.quoted && walk.at.has(needed) && walk.at.u8(0) == kNoNextHeader)
        walk.out.ip_proto = kNoNextHeader;
    return walk.truncated(issue);
}

Next after_extension(Walk& walk, std::size_t length) {
    const std::uint8_t protocol = walk.at.u8(0);
    if (!walk.at.has(length)) return truncated_extension(walk, 2);
    if (!walk.quoted) walk.out.ip_proto = protocol;
    walk.at.skip(length);
    if (walk.at.reported() == 0 && protocol != 59) walk.out.sure = false;  // the next header is missing
    return walk.protocol(protocol);
}

std::size_t extension_length(const Cursor& at) { return (at.u8(1) + std::size_t{1}) * 8; }

// Returns false if an option extends beyond its header (RFC 8200 section 4.2). tshark continues to read
// there, and may stop.
bool options_fit(const Cursor& at, std::size_t length) {
    constexpr std::uint8_t kPad1 = 0;
    std::size_t option = 2;
    while (option < length && at.has(option + 2))
        option += at.u8(option) == kPad1 ? 1 : at.u8(option + 1) + std::size_t{2};
    return option <= length;
}

// Returns false if a routing header has, or may have (RPL), the wrong length for its type, because tshark
// stops there.
bool addresses_fit(const Cursor& at) {
    constexpr std::uint8_t kMobility = 2;        // RFC 6275 section 6.4
    constexpr std::uint8_t kRpl = 3;             // RFC 6554
    constexpr std::uint8_t kSegmentRouting = 4;  // RFC 8754 section 2
    const std::uint8_t length = at.u8(1);
    switch (at.u8(2)) {
        case kMobility:
            return length == 2;
        case kRpl:
            return false;
        case kSegmentRouting:
            return (at.u8(4) + 1U) * 2 <= length;
        default:
            return length % 2 == 0;
    }
}

// tshark also decodes extension headers in IPv4 packets, but differently.
void begin_extension(Walk& walk, Token token) {
    walk.push(token);
    if (walk.ip_version != 6 || walk.at.reported() < 8) walk.out.sure = false;
}

Next options(Walk& walk, Token token) {
    begin_extension(walk, token);
    if (!walk.at.has(2)) return walk.truncated(Issue::truncated_ipv6_extension);
    const std::size_t length = extension_length(walk.at);
    if (!options_fit(walk.at, length)) walk.out.sure = false;
    return after_extension(walk, length);
}

}  // namespace

Next dissect_ipv6(Walk& walk) {
    if (walk.at.has(1) && walk.at.u8(0) >> 4 != 6) {
        walk.malformed(Issue::bad_ip_version);
        return walk.stop_at_payload();  // tshark decodes other versions as data
    }
    walk.push(Token::ipv6);
    if (!walk.at.has(kIpv6Header)) {
        if (walk.at.has(1)) walk.network_packet(6);
        return walk.truncated(Issue::truncated_ipv6);
    }
    const std::uint16_t payload = walk.at.be16(4);
    const std::uint8_t protocol = walk.at.u8(6);
    walk.network_header(6);
    // Zero in a jumbogram with a hop-by-hop header (RFC 2675 section 3), or if the sender offloads
    // segmentation to its NIC.
    const std::size_t length = payload ? kIpv6Header + payload : walk.at.reported();
    if (!walk.quoted) {
        walk.out.ip_proto = protocol;
        walk.out.ip_len = static_cast<std::uint32_t>(length);
        walk.at.copy(8, 16, walk.out.src.data());
        walk.at.copy(24, 16, walk.out.dst.data());
    }
    if (payload == 0 && protocol != 59) walk.out.sure = false;
    walk.limit(length);
    walk.network_packet(6);
    walk.at.skip(kIpv6Header);
    return walk.protocol(protocol);
}

Next dissect_hop_by_hop(Walk& walk) {
    // RFC 8200 section 4.1 allows one, immediately after the IPv6 header.
    const bool in_place =
        walk.out.token_count > 0 && walk.out.tokens[walk.out.token_count - 1] == Token::ipv6;
    if (!in_place) walk.out.sure = false;
    return options(walk, Token::ipv6_hopopts);
}

Next dissect_destination_options(Walk& walk) { return options(walk, Token::ipv6_dstopts); }
Next dissect_ipv6_routing(Walk& walk) {
    begin_extension(walk, Token::ipv6_routing);
    if (!walk.at.has(8)) {
        walk.out.sure = walk.out.sure && walk.at.reported() >= 8;
        return truncated_extension(walk, 1);
    }
    if (!addresses_fit(walk.at)) walk.out.sure = false;
    return after_extension(walk, extension_length(walk.at));
}

Next dissect_ipv6_fragment(Walk& walk) {
    constexpr std::size_t kLength = 8;
    begin_extension(walk, Token::ipv6_fraghdr);
    if (!walk.at.has(kLength)) return walk.truncated(Issue::truncated_ipv6_extension);
    const std::uint16_t offset = walk.at.be16(2);
    if (offset & 0xfff8) {
        if (!walk.quoted) {
            walk.out.ip_proto = walk.at.u8(0);
            walk.out.later_fragment = true;
        }
        walk.at.skip(kLength);
        return walk.stop_at_payload();
    }
    return after_extension(walk, kLength);
}

Next dissect_authentication(Walk& walk) {
    walk.push(Token::ah);
    if (!walk.at.has(12)) return truncated_extension(walk, 2, Issue::truncated_ah);
    const std::size_t length = (walk.at.u8(1) + std::size_t{2}) * 4;
    if (length < 12) return walk.stop_as_unsure();
    return after_extension(walk, length);
}

}  // namespace acapella
