// Link types other than Ethernet: Linux cooked captures, BSD loopback, raw IP.
#include "dissect/dissectors.hpp"

namespace acapella {
namespace {

constexpr std::uint16_t kMinCookedEthertype = 1537;  // tshark does not accept 1536

// ARPHRD_ types for which tshark does not always read the protocol field as an ethertype.
bool has_own_protocols(std::uint16_t hardware) {
    switch (hardware) {
        case 778:  // GRE
        case 801:
        case 802:
        case 803:  // 802.11, with and without radio headers
        case 824:  // netlink
            return true;
        default:
            return false;
    }
}

Next cooked(Walk& walk, std::uint16_t protocol, std::uint32_t header) {
    walk.at.skip(header);
    walk.link_header(header);
    if (protocol < kMinCookedEthertype) {
        constexpr std::uint16_t kIpx = 1;
        constexpr std::uint16_t kLlc = 4;
        if (protocol == kLlc) return Next::llc;
        return protocol == kIpx ? walk.stop_at_payload() : walk.stop_as_unsure();
    }
    walk.push(Token::ethertype);
    return walk.ethertype(protocol);
}

}  // namespace

Next dissect_linux_cooked(Walk& walk) {
    walk.push(Token::sll);
    if (!walk.at.has(16)) {
        walk.truncated(Issue::truncated_sll);
        return walk.stop_as_unsure();
    }
    if (has_own_protocols(walk.at.be16(2))) walk.out.sure = false;
    return cooked(walk, walk.at.be16(14), 16);
}

Next dissect_linux_cooked_v2(Walk& walk) {
    walk.push(Token::sll);
    if (!walk.at.has(20)) return walk.truncated(Issue::truncated_sll);
    if (has_own_protocols(walk.at.be16(8))) walk.out.sure = false;
    return cooked(walk, walk.at.be16(0), 20);
}

namespace {

Next by_family(Walk& walk, std::uint32_t family) {
    walk.at.skip(4);
    walk.link_header(4);
    switch (family) {
        case 2:
            return Next::ipv4;
        case 24:  // NetBSD, OpenBSD
        case 28:  // FreeBSD
        case 30:  // macOS
            return Next::ipv6;
        default:
            return walk.stop_as_unsure();
    }
}

}  // namespace

// The address family is in the byte order of the capturing machine.
Next dissect_null(Walk& walk) {
    walk.push(Token::null);
    if (!walk.at.has(4)) return walk.truncated(Issue::truncated_null);
    const std::uint32_t family = walk.at.be32(0);
    return by_family(walk, family & 0xffff0000U ? __builtin_bswap32(family) : family);
}

// Like dissect_null(), but in network byte order.
Next dissect_loop(Walk& walk) {
    walk.push(Token::null);
    if (!walk.at.has(4)) return walk.truncated(Issue::truncated_null);
    return by_family(walk, walk.at.be32(0));
}

Next dissect_raw(Walk& walk) {
    constexpr std::size_t kLookahead = 8;  // tshark checks for PPP first
    walk.push(Token::raw);
    if (!walk.at.has(kLookahead)) {
        walk.truncated(Issue::truncated_ipv4);
        return walk.stop_as_unsure();
    }
    switch (walk.at.u8(0) >> 4) {
        case 4:
            return Next::ipv4;
        case 6:
            return Next::ipv6;
        default:
            return walk.stop_at_payload();
    }
}

}  // namespace acapella
