// IPv4, RFC 791.
#include <algorithm>

#include "dissect/dissectors.hpp"

namespace acapella {
namespace {

constexpr std::size_t kMinIpv4Header = 20;
constexpr std::uint16_t kFragmentOffset = 0x1fff;

void take_keys(Walk& walk, std::uint32_t length) {
    Dissection& out = walk.out;
    walk.network_header(4);
    if (walk.quoted) return;
    out.ip_proto = walk.at.u8(9);
    out.ip_len = length;
    out.has_ip_id = true;
    out.ip_id = walk.at.be16(4);
    walk.at.copy(12, 4, out.src.data());
    walk.at.copy(16, 4, out.dst.data());
}

// Returns true if the options contain a source route (RFC 791 section 3.1), whose last address tshark uses as
// the destination, or may contain one because they are truncated.
bool may_be_source_routed(const Cursor& at, std::size_t header) {
    constexpr std::uint8_t kEnd = 0;
    constexpr std::uint8_t kNoOperation = 1;
    constexpr std::uint8_t kLoose = 131;
    constexpr std::uint8_t kStrict = 137;
    std::size_t option = kMinIpv4Header;
    while (option < header) {
        if (!at.has(option + 1)) return true;
        const std::uint8_t type = at.u8(option);
        if (type == kEnd) return !at.has(header);
        if (type == kLoose || type == kStrict) return true;
        option += type == kNoOperation ? 1 : std::max<std::size_t>(at.u8(option + 1), 2);
    }
    return !at.has(header);
}

}  // namespace

Next dissect_ipv4(Walk& walk) {
    walk.push(Token::ip);
    if (!walk.at.has(1)) return walk.truncated(Issue::truncated_ipv4);
    const std::uint8_t first = walk.at.u8(0);
    if (first >> 4 == 6) return Next::ipv6;
    if (first >> 4 != 4) return walk.malformed(Issue::bad_ip_version);
    if (!walk.at.has(kMinIpv4Header)) {
        walk.network_packet(4);
        return walk.truncated(Issue::truncated_ipv4);
    }
    const std::size_t header = (first & 0x0fU) * 4;
    if (header < kMinIpv4Header) {
        walk.malformed(Issue::bad_ipv4_header_length);
        return walk.stop_at_payload();
    }
    // Zero is not allowed by RFC 791, but occurs if the sender's NIC sets the length per segment.
    const std::uint16_t total = walk.at.be16(2);
    const std::size_t length = total ? total : walk.at.reported();
    if (length < header) {
        walk.malformed(Issue::bad_ipv4_total_length);
        return walk.stop_at_payload();
    }
    take_keys(walk, static_cast<std::uint32_t>(length));
    walk.limit(length);
    walk.network_packet(4);
    if (may_be_source_routed(walk.at, header)) walk.out.sure = false;
    if (!walk.at.has(header)) return walk.truncated(Issue::truncated_ipv4);
    const std::uint16_t fragment = walk.at.be16(6);
    const std::uint8_t protocol = walk.at.u8(9);
    walk.at.skip(header);
    if (fragment & kFragmentOffset) {
        if (!walk.quoted) walk.out.later_fragment = true;
        return walk.stop_at_payload();
    }
    return walk.at.reported() ? walk.protocol(protocol) : Walk::stop();
}

}  // namespace acapella
