// Tunnel headers; the packets inside are dissected as further headers.
#include "anonymize/headers/keep.hpp"
#include "anonymize/lengths.hpp"
#include "anonymize/repeats.hpp"
#include "dissect/gre_key.hpp"

namespace acapella::anonymize {
namespace {

// RFC 2637 section 4.1, RFC 2890 section 2, RFC 7637 section 3.2.
void replace_gre_key(Header& header, std::uint16_t flags, std::uint16_t type) {
    const std::size_t at = gre::key_offset(flags);
    if ((flags & gre::kKey) == 0) return;
    if (type == gre::kPptp) return header.tunnel(at + 2, 2, TunnelType::pptp_call);
    const TunnelType key_type = gre::key_identifier(flags, type, header.at.be32(at)).type;
    if (key_type != TunnelType::nvgre_vsid) return header.tunnel(at, 4, key_type);
    header.tunnel(at, 3, key_type);
    header.tunnel(at + 3, 1, TunnelType::nvgre_flow_id);
}

// draft-foschiano-erspan sections 4.2 and 4.3. Type III keeps the frame type and the flag that determines the
// header's length; timestamp, security group and port are set to zero.
void keep_erspan(Header& header, std::size_t begin) {
    constexpr std::size_t kTypeTwo = 8;
    constexpr std::size_t kFlags = 10;
    const std::size_t length = header.length() - begin;
    if (length == kTypeTwo) {
        header.keep(header.length());
    } else {
        header.keep(begin + 4);
        header.blank(header.length());
        header.copy_original(begin + kFlags, 2);
    }
    header.tunnel(begin + 2, 2, TunnelType::erspan_session);
}

// Returns true if all source routes from `begin` on, except the last, satisfy is_source_route().
bool has_source_routes(const Cursor& at, std::size_t begin, std::size_t end) {
    for (; begin + gre::kRouteHeader <= end; begin += gre::route_length(at, begin))
        if (!gre::is_last_route(at, begin) &&
            !is_source_route(at.be16(begin), at.u8(begin + 2), at.u8(begin + 3)))
            return false;
    return true;
}

// RFC 1701: source routes are addresses, so only family, offset and length are kept.
void blank_routes(Header& header, std::size_t begin, std::size_t end) {
    header.blank(end);
    for (; begin + gre::kRouteHeader <= end; begin += gre::route_length(header.at, begin))
        header.copy_original(begin, gre::kRouteHeader);
}

}  // namespace

// Keeps the GRE header. The dissector reads the ERSPAN header, and the address and control fields of PPP, as
// part of it.
void keep_gre(Header& header) {
    if (header.length() < 4) return;
    const std::uint16_t flags = header.at.be16(0);
    const std::uint16_t type = header.at.be16(2);
    const std::size_t routes = gre::header_length(flags);
    const std::size_t end = gre::header_end(header.at, flags);
    if (end == 0) return;
    const bool erspan = type == gre::kErspan || type == gre::kErspan3;
    header.keep(routes);
    replace_gre_key(header, flags, type);
    const bool known_routes = has_source_routes(header.at, routes, end);
    if (known_routes) blank_routes(header, routes, end);
    if (known_routes && !erspan) header.keep(header.length());
    if (known_routes && erspan && header.length() >= end + 8) keep_erspan(header, end);
    if (flags & gre::kChecksum) header.add_checksum(ChecksumKind::plain, 4);
}

// RFC 7348 section 5; also VXLAN-GPE, draft-ietf-nvo3-vxlan-gpe section 3.
void keep_vxlan(Header& header, TunnelType type) {
    header.keep(header.length());
    header.tunnel(4, 3, type);
}

// RFC 2516 section 4.
void keep_pppoe(Header& header) {
    header.keep(header.length());
    header.tunnel(2, 2, TunnelType::pppoe_session);
}

namespace {

constexpr std::size_t kGeneveOption = 4;  // class, type, length

std::size_t geneve_option_length(const Cursor& at, std::size_t option) {
    return kGeneveOption + (at.u8(option + 3) & 0x1fU) * std::size_t{4};
}

// Returns true if the options fill their part of the header and their three reserved bits are zero (RFC 8926
// section 3.5).
bool has_geneve_options(const Cursor& at, std::size_t option, std::size_t end) {
    constexpr std::uint8_t kReserved = 0xe0;
    for (; option < end; option += geneve_option_length(at, option))
        if ((at.u8(option + 3) & kReserved) != 0) return false;
    return option == end;
}

}  // namespace

// RFC 8926 section 3.5: options keep their length. Known options that are not repeated also keep their class
// and type.
void keep_geneve(Header& header) {
    constexpr std::size_t kFixed = 8;
    const std::size_t end = header.length();
    if (end < kFixed) return;
    header.keep(kFixed);
    header.tunnel(4, 3, TunnelType::geneve_vni);
    header.blank(end);
    if (!has_geneve_options(header.at, kFixed, end)) return;
    Seen<std::size(kGeneveTypes) + 1> seen;
    for (std::size_t option = kFixed; option < end; option += geneve_option_length(header.at, option)) {
        const std::size_t index = index_of(kGeneveTypes, header.at.be24(option));
        const bool known = index < std::size(kGeneveTypes) && seen.first(index);
        header.copy_original(option + (known ? 0 : 3), known ? kGeneveOption : 1);
    }
}

namespace {

constexpr std::size_t kGtpFixed = 12;  // including the sequence number and the type of the first extension

// Returns true if all extensions are known and none is repeated.
bool has_gtp_extensions(const Cursor& at, std::size_t end) {
    Seen<256> seen;
    std::uint8_t type = at.u8(kGtpFixed - 1);
    for (std::size_t begin = kGtpFixed; begin < end;) {
        const std::size_t length = at.u8(begin) * std::size_t{4};
        if (length == 0 || !has_type(kGtpExtensions, type) || !seen.first(type)) return false;
        begin += length;
        type = at.u8(begin - 1);
    }
    return true;
}

}  // namespace

// 3GPP TS 29.281 clause 5.2.1: extension headers keep their length and the next type if all types are known
// and none is repeated. Otherwise, the frame ends before them. Signaling messages keep only the common
// header.
void keep_gtp(Header& header) {
    constexpr std::size_t kFixed = 8;
    constexpr std::uint8_t kOptional = 0x07;
    constexpr std::uint8_t kHasTeid = 0x08;  // of version 2, 3GPP TS 29.274 clause 5.1
    const std::uint8_t version = header.at.u8(0) >> 5;
    if (!header.at.has(kFixed) || (version != 1 && version != 2)) return;
    header.keep(kFixed);
    if (version == 1 || (header.at.u8(0) & kHasTeid) != 0) header.tunnel(4, 4, TunnelType::gtp_teid);
    const std::size_t end = header.length();
    if (end == 0) return;
    std::size_t extension = kFixed;
    if (header.at.u8(0) & kOptional) {
        extension = kGtpFixed;
        header.keep(extension);
    }
    if (extension < end && !has_gtp_extensions(header.at, end)) return;
    header.blank(end);
    while (extension < end) {
        const std::size_t length = header.at.u8(extension) * std::size_t{4};
        if (length == 0) return;
        header.copy_original(extension, 1);
        header.copy_original(extension + length - 1, 1);
        extension += length;
    }
}

// RFC 3948 section 2: a keepalive, the non-ESP marker of IKE, or the SPI and sequence number of ESP.
void keep_udpencap(Header& header) {
    if (header.length() != 0) {
        header.keep(header.length());
    } else if (header.at.reported() == 1) {
        header.keep(1);
    } else {
        header.keep(header.at.has(8) ? 8 : 4);
    }
}

namespace {

constexpr std::uint16_t kL2tpControl = 0x8000;
constexpr std::uint16_t kL2tpLength = 0x4000;
constexpr std::uint16_t kL2tpSequence = 0x0800;
constexpr std::uint16_t kL2tpOffset = 0x0200;
constexpr std::uint16_t kL2tpVersion = 0x000f;

void replace_l2tp_version_2(Header& header, std::size_t at) {
    header.tunnel(at, 2, TunnelType::l2tp_tunnel);
    header.tunnel(at + 2, 2, TunnelType::l2tp_session);
}

// RFC 2661 section 3.1, RFC 3931 section 3.2.1: keeps the header of control messages. Attributes are removed,
// because they contain host names.
void keep_l2tp_control(Header& header, std::uint16_t flags) {
    if (!header.at.has(12)) return;
    header.keep(12);
    if ((flags & kL2tpVersion) == 3) return header.tunnel(4, 4, TunnelType::l2tp_tunnel);
    replace_l2tp_version_2(header, flags & kL2tpLength ? 4 : 2);
}

// RFC 2661 section 3.1: sets the offset padding to zero, and keeps the address and control fields of PPP (RFC
// 1662 section 3.1), which the dissector reads as part of the header. A session identifier or padding may
// contain the same two bytes.
void keep_l2tp_data(Header& header, std::uint16_t flags) {
    constexpr std::size_t kAddressAndControl = 2;
    const std::size_t ids = flags & kL2tpLength ? 4 : 2;
    const std::size_t end = header.length();
    const std::size_t fixed = ids + 4 + (flags & kL2tpSequence ? 4 : 0) + (flags & kL2tpOffset ? 2 : 0);
    const std::size_t padding = flags & kL2tpOffset ? header.at.be16(fixed - 2) : 0;
    header.keep(fixed);
    replace_l2tp_version_2(header, ids);
    header.blank(end);
    if (end == fixed + padding + kAddressAndControl)
        header.copy_original(fixed + padding, kAddressAndControl);
}

}  // namespace

void keep_l2tp(Header& header) {
    const std::uint16_t flags = header.at.be16(0);
    const std::uint16_t version = flags & kL2tpVersion;
    if (!header.at.has(2) || version < 2 || version > 3) return;
    if (flags & kL2tpControl) return keep_l2tp_control(header, flags);
    if (header.length() == 0) return;
    if (version == 2) return keep_l2tp_data(header, flags);
    header.keep(8);
    header.tunnel(4, 4, TunnelType::l2tp_session);
}

// RFC 3931 section 4.1.1: a cookie, or the control connection after session 0, follows.
void keep_l2tp_ip(Header& header) {
    if (header.length() == 0) return;
    header.keep(4);
    header.tunnel(0, 4, TunnelType::l2tp_session);
}

// RFC 4380 section 5.1.1: the authentication header keeps its lengths. The origin indication contains an
// address with all bits inverted.
void keep_teredo(Header& header) {
    constexpr std::uint16_t kAuthentication = 1;
    const std::size_t end = header.length();
    header.blank(end);
    std::size_t origin = 0;
    if (end > 0 && header.at.be16(0) == kAuthentication) {
        header.copy_original(0, 4);
        origin = 13 + std::size_t{header.at.u8(2)} + header.at.u8(3);
    }
    if (end == origin + 8) {
        header.copy_original(origin, 4);
        header.builder.map_inverted(header.step.begin + origin + 4);
    }
}

// Keeps the base transport header. Extended headers contain remote addresses and keys.
void keep_infiniband(Header& header) {
    constexpr std::size_t kBase = 12;
    if (header.at.has(kBase)) header.keep(kBase);
}

}  // namespace acapella::anonymize
