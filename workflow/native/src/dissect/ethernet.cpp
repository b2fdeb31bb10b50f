// Ethernet II and IEEE 802.3.
#include "dissect/dissectors.hpp"

namespace acapella {
namespace {

constexpr std::size_t kEthernetHeader = 14;
constexpr std::uint16_t kMinEthertype = 1536;  // IEEE 802.3-2018 clause 3.2.6
constexpr std::uint16_t kF5FileInformation = 0x05ff;
// Cisco ISL header; its length field does not count the bytes up to and including the field itself
constexpr std::size_t kIsl = 26;
constexpr std::uint32_t kIslLlc = 0xaaaa03;
constexpr std::size_t kFrameCheck = 4;
constexpr std::uint32_t kTteMarker = 0x03040506;  // tshark's default marker of Time-Triggered Ethernet

// Destination addresses for which tshark decodes an 802.3 frame as Cisco ISL.
bool is_isl(const Cursor& at) {
    const std::uint8_t first = at.u8(0);
    return (first == 0x01 || first == 0x0c) && at.be32(1) == 0x000c0000;
}

// GARP addresses of IEEE 802.1D, 01-80-C2-00-00-20 to 2F: same LLC address as STP, but a different protocol.
bool is_garp(const Cursor& at) { return at.be32(0) == 0x0180c200 && (at.be16(4) & 0xfff0) == 0x0020; }

// Cisco ISL: a complete frame with its FCS, after a header whose type is 0 for Ethernet.
Next dissect_isl(Walk& walk, std::uint16_t length) {
    const bool carries_ethernet = walk.at.u8(5) >> 4 == 0 && walk.at.be24(kEthernetHeader) == kIslLlc;
    if (!walk.innermost || !carries_ethernet || length < kIsl - kEthernetHeader + kFrameCheck)
        return walk.stop_as_unsure();
    walk.out.sure = false;
    walk.at.limit(kEthernetHeader + length - kFrameCheck);
    walk.at.skip(kIsl);
    walk.link_payload(0);  // until the inner frame sets it
    return Next::ethernet;
}

Next dissect_802_3(Walk& walk, std::uint16_t length) {
    if (is_isl(walk.at)) return dissect_isl(walk, length);
    const bool raw_ipx = walk.at.be16(kEthernetHeader) == 0xffff && walk.at.has(kEthernetHeader + 2);
    walk.at.skip(kEthernetHeader);
    walk.link_payload(length);
    walk.limit(length);
    walk.link_header(kEthernetHeader);
    return raw_ipx ? walk.stop_at_payload() : Next::llc;
}

}  // namespace

Next dissect_ethernet(Walk& walk) {
    walk.push(Token::eth);
    if (!walk.at.has(kEthernetHeader)) return walk.truncated(Issue::truncated_ethernet);
    const std::uint16_t type = walk.at.be16(12);
    if (walk.at.be32(0) == kTteMarker || is_garp(walk.at)) walk.out.sure = false;
    if (type >= kMinEthertype || type == 0) {
        walk.push(Token::ethertype);
        walk.at.skip(kEthernetHeader);
        walk.link_header(kEthernetHeader);
        return walk.ethertype(type);
    }
    if (type <= kMax8023Length) return dissect_802_3(walk, type);
    if (walk.innermost && is_isl(walk.at))
        return dissect_isl(walk, type);  // tshark decodes only shorter frames
    walk.at.skip(kEthernetHeader);
    walk.link_payload(type);
    walk.link_header(kEthernetHeader);
    walk.malformed(Issue::bad_ethernet_length);
    return type == kF5FileInformation ? walk.stop_as_unsure() : walk.stop_at_payload();
}

}  // namespace acapella
