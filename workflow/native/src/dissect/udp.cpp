// UDP, RFC 768; UDP-Lite, RFC 3828; and the tunnels identified by a port number.
#include <algorithm>

#include "dissect/dissectors.hpp"
#include "dissect/udp_ports.hpp"

namespace acapella {
namespace {

constexpr std::size_t kUdpHeader = 8;

Next by_port(Walk& walk, std::uint16_t source, std::uint16_t destination) {
    const std::uint16_t low = std::min(source, destination);
    const std::uint16_t high = std::max(source, destination);
    // tshark tries the dissector of the lower port first.
    for (const std::uint16_t port : {low, high}) {
        const Next tunnel = udp_tunnel(port);
        if (tunnel == Next::stop) continue;
        if (port == high && low != high && udp_port_known(low)) walk.out.sure = false;
        return tunnel;
    }
    if (udp_payload_has_headers(low, walk.at) || udp_payload_has_headers(high, walk.at))
        return walk.stop_as_unsure();
    return walk.stop_at_payload();
}

// tshark calls no dissector for a payload that was not captured, so the stack ends here. However, a tunnel
// identifier may be missing.
Next without_payload(Walk& walk, std::uint16_t source, std::uint16_t destination) {
    if (walk.at.reported() == 0) return Walk::stop();
    const Next low = udp_tunnel(std::min(source, destination));
    const Issue issue =
        udp_tunnel_truncated(low != Next::stop ? low : udp_tunnel(std::max(source, destination)));
    return issue == Issue::none ? Walk::stop() : walk.truncated(issue);
}

}  // namespace

Next dissect_udp(Walk& walk) {
    walk.push(Token::udp);
    if (walk.at.has(4)) walk.ports();
    if (!walk.at.has(kUdpHeader)) return walk.truncated(Issue::truncated_udp);
    const std::uint16_t source = walk.at.be16(0);
    const std::uint16_t destination = walk.at.be16(2);
    const std::size_t length = walk.at.be16(4);
    if (length == 0 && walk.out.ip_version == 6) walk.out.sure = false;  // a jumbogram, RFC 2675 section 4
    if (length < kUdpHeader) return walk.malformed(Issue::bad_udp_length);
    // The first fragment of a datagram has fewer bytes than the UDP length.
    walk.payload_length(static_cast<std::uint32_t>(std::min(length, walk.at.reported()) - kUdpHeader));
    walk.at.limit(length);
    walk.at.skip(kUdpHeader);
    if (!walk.at.has(1)) return without_payload(walk, source, destination);
    return by_port(walk, source, destination);
}

Next dissect_udplite(Walk& walk) {
    walk.push(Token::udplite);
    if (walk.at.has(4)) walk.ports();
    if (!walk.at.has(kUdpHeader)) return walk.truncated(Issue::truncated_udp);
    walk.at.skip(kUdpHeader);
    walk.payload_length(static_cast<std::uint32_t>(walk.at.reported()));
    return walk.stop_as_unsure();
}

}  // namespace acapella
