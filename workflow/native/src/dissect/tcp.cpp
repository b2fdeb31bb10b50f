// TCP, RFC 9293; MPTCP options, RFC 8684 section 3.
#include "dissect/dissectors.hpp"

namespace acapella {
namespace {

constexpr std::size_t kMinTcpHeader = 20;
constexpr std::uint8_t kEnd = 0;
constexpr std::uint8_t kNop = 1;
constexpr std::uint8_t kMptcp = 30;

// tshark prints `mptcp` once for every MPTCP option.
void take_options(Walk& walk, std::size_t header) {
    for (std::size_t at = kMinTcpHeader; at < header;) {
        const std::uint8_t kind = walk.at.u8(at);
        if (kind == kEnd) return;
        if (kind == kNop) {
            ++at;
            continue;
        }
        if (!walk.at.has(at + 2)) return;
        const std::uint8_t length = walk.at.u8(at + 1);
        if (length < 2 || at + length > header) return;
        if (kind == kMptcp) walk.push(Token::mptcp);
        at += length;
    }
}

// Returns true if any message in this payload looks like PACKET_IN or PACKET_OUT of OpenFlow (OpenFlow 1.5.1
// section 7.1.1), which contain whole frames. tshark detects OpenFlow on every port.
bool carries_openflow_packet(Cursor at) {
    constexpr std::uint8_t kMaxVersion = 6;
    constexpr std::uint8_t kMaxType = 35;
    constexpr std::uint8_t kPacketIn = 10;
    constexpr std::uint8_t kPacketOut = 13;
    while (at.has(4)) {
        const std::uint8_t type = at.u8(1);
        const std::uint16_t length = at.be16(2);
        if (at.u8(0) - 1U >= kMaxVersion || type > kMaxType || length < 8) return false;
        if (type == kPacketIn || type == kPacketOut) return true;
        at.skip(length);
    }
    return false;
}

}  // namespace

Next dissect_tcp(Walk& walk) {
    walk.push(Token::tcp);
    if (walk.at.has(4)) walk.ports();
    if (!walk.at.has(kMinTcpHeader)) return walk.truncated(Issue::truncated_tcp);
    const std::uint16_t offset_flags = walk.at.be16(12);
    const std::size_t header = (offset_flags >> 12) * std::size_t{4};
    if (header < kMinTcpHeader) return walk.malformed(Issue::bad_tcp_header_length);
    if (!walk.quoted) {
        Dissection& out = walk.out;
        out.has_tcp = true;
        out.tcp_flags = offset_flags & 0x0fff;
        out.tcp_seq = walk.at.be32(4);
        out.tcp_ack = walk.at.be32(8);
        out.tcp_window = walk.at.be16(14);
    }
    take_options(walk, header);
    if (header > walk.at.reported()) return walk.malformed(Issue::bad_tcp_header_length);
    walk.payload_length(static_cast<std::uint32_t>(walk.at.reported() - header));
    if (!walk.at.has(header)) return walk.truncated(Issue::truncated_tcp_options);
    walk.at.skip(header);
    return carries_openflow_packet(walk.at) ? walk.stop_as_unsure() : walk.stop_at_payload();
}

}  // namespace acapella
