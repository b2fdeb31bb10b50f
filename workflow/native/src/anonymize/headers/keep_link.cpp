// Link-layer headers and tags, ARP, and protocols directly above Ethernet.
#include <algorithm>

#include "anonymize/headers/keep.hpp"
#include "anonymize/repeats.hpp"

namespace acapella::anonymize {
namespace {

constexpr std::uint16_t kMaxLength = 1500;  // IEEE 802.3-2018 clause 3.2.6

// Novell IPX frames without LLC start with 0xffff.
void keep_raw_ipx(Header& header, std::size_t length) {
    const std::uint16_t type = header.at.be16(length - 2);
    const bool raw_ipx = type > 0 && type <= kMaxLength && header.at.be16(length) == 0xffff;
    if (raw_ipx && !header.step.continues) header.keep(length + 2);
}

// Linux stores the sender's address in a field of eight bytes, of which `length` bytes are used.
void map_cooked_address(FrameBuilder& builder, std::size_t offset, std::size_t length) {
    constexpr std::size_t kMac = 6;
    if (length == kMac) builder.map<Mac>(offset);
}

}  // namespace

void keep_ethernet(Header& header) {
    constexpr std::size_t kLength = 14;
    if (header.length() != kLength) return;
    header.keep(kLength);
    header.mac(0);
    header.mac(6);
    keep_raw_ipx(header, kLength);
}

void keep_vlan(Header& header) {
    constexpr std::size_t kLength = 4;
    const bool is_double = header.step.dissector == Next::service_vlan && header.length() == 2 * kLength;
    if (header.length() != kLength && !is_double) return;
    header.keep(header.length());
    if (header.step.dissector == Next::vlan) keep_raw_ipx(header, kLength);
}

void keep_mpls(Header& header) {
    constexpr std::uint16_t kBottom = 0x0100;
    const std::size_t entries = kept_labels(header.at, header.length());
    header.keep(kLabel * std::min(entries, kMaxInRow));
    header.blank(kLabel * entries);
    for (std::size_t i = kMaxInRow; i < entries; ++i) {
        const std::size_t half = kLabel * i + 2;
        header.put16(half, header.at.be16(half) & kBottom);
    }
}

// Keeps the I-TAG, and the customer's addresses and type.
void keep_pbb(Header& header) {
    constexpr std::size_t kLength = 18;
    if (header.length() != kLength) return;
    header.keep(kLength);
    header.mac(4);
    header.mac(10);
    header.tunnel(1, 3, TunnelType::pbb_isid);
}

// Only the LLC header is kept, because spanning tree, CDP, VTP, DTP and UDLD messages contain bridge names,
// port names and software versions.
void keep_llc(Header& header) { header.keep(header.length()); }

void keep_arp(Header& header) {
    constexpr std::size_t kFixed = 8;
    constexpr std::uint16_t kAx25 = 3;
    constexpr std::uint16_t kAtm = 19;  // with another layout, RFC 2225 section 8.1
    const Cursor& at = header.at;
    const std::size_t hardware = at.u8(4);
    const std::size_t protocol = at.u8(5);
    const std::size_t length = kFixed + 2 * (hardware + protocol);
    const bool known = hardware == 6 && (protocol == 4 || protocol == 16);
    if (!at.has(kFixed) || at.be16(0) == kAtm || at.be16(0) == kAx25) return;
    header.keep(kFixed);
    if (!known || !at.has(length)) return;
    header.blank(length);
    for (std::size_t offset = kFixed; offset < length; offset += hardware + protocol) {
        header.mac(offset);
        if (protocol == 4) {
            header.ipv4(offset + hardware);
        } else {
            header.ipv6(offset + hardware);
        }
    }
}

// LACP contains MAC addresses after its subtype and version.
void keep_slow(Header& header) {
    if (header.at.has(2)) header.keep(2);
}

// Only the common header of IS-IS is kept, because system identifiers follow it.
void keep_osi(Header& header) {
    constexpr std::uint8_t kIsis = 0x83;
    if (header.at.u8(0) == kIsis && header.at.has(8)) header.keep(8);
}

// Keeps the header up to and including the correction field. The clock identity after it is often derived
// from a MAC address (IEEE 1588-2019 clause 13.3).
void keep_ptp(Header& header) {
    const bool version2 = (header.at.u8(1) & 0x0f) == 2;
    const bool fits = header.at.be16(2) <= header.at.reported();  // false if this is not a PTP message
    if (version2 && fits && header.at.has(16)) header.keep(16);
}

void keep_linux_cooked(FrameBuilder& builder, std::size_t length) {
    constexpr std::size_t kAddress = 6;
    if (length != 16) return;
    builder.keep_to(kAddress);
    builder.blank_to(length);
    builder.copy_original(14, 2);
    map_cooked_address(builder, kAddress, builder.original(4).be16(0));
}

void keep_linux_cooked_v2(FrameBuilder& builder, std::size_t length) {
    constexpr std::size_t kAddress = 12;
    if (length != 20) return;
    builder.keep_to(kAddress);
    builder.blank_to(length);
    map_cooked_address(builder, kAddress, builder.original(11).u8(0));
}

}  // namespace acapella::anonymize
