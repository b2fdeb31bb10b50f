// ICMP, ICMPv6 with neighbor discovery and listener discovery, IGMP, PIM.
#include "anonymize/headers/keep.hpp"
#include "anonymize/lengths.hpp"
#include "anonymize/repeats.hpp"

namespace acapella::anonymize {
namespace {

constexpr std::size_t kHeader = 8;
constexpr std::uint8_t kIcmpv6 = 58;
constexpr std::size_t kIpv6 = 16;

// Keeps at most `count` captured addresses starting at `offset`. Returns the offset after the last one.
std::size_t keep_ipv6_each(Header& header, std::size_t offset, std::size_t count) {
    for (; count > 0 && header.at.has(offset + kIpv6); --count, offset += kIpv6) {
        header.blank(offset + kIpv6);
        header.ipv6(offset);
    }
    return offset;
}

// Keeps the value of an option. If the option is repeated, keeps only its addresses.
void keep_neighbor_value(Header& header, std::size_t option, std::size_t length, bool repeated) {
    constexpr std::size_t kUnit = 8;
    constexpr std::size_t kPrefix = 12;  // before four reserved bytes
    const auto copy_original = [&](std::size_t from, std::size_t to) {
        if (!repeated) header.copy_original(option + from, to - from);
    };
    switch (header.at.u8(option)) {
        case 1:  // link-layer address of the source or target
        case 2:
            header.mac(option + 2);
            return;
        case 3:  // prefix
            copy_original(2, kPrefix);
            header.ipv6(option + 2 * kUnit);
            return;
        case 5:  // MTU, after two reserved bytes
            copy_original(4, kUnit);
            return;
        case 24:  // route
            copy_original(2, kUnit);
            header.builder.map_prefix(header.step.begin + option + kUnit, length - kUnit);
            return;
        case 25:  // name servers: lifetime, after two reserved bytes
            copy_original(4, kUnit);
            for (std::size_t at = kUnit; at + kIpv6 <= length; at += kIpv6) header.ipv6(option + at);
            return;
        default:
            return;
    }
}

// RFC 4861 section 4.6: type, length in units of 8 bytes. Options of known types keep both fields, unknown
// options only the length.
void keep_neighbor_options(Header& header, std::size_t option) {
    Seen<256> seen;
    while (header.kept() == option && header.at.has(option + 8)) {
        const std::uint8_t type = header.at.u8(option);
        const std::size_t length = header.at.u8(option + 1) * std::size_t{8};
        if (length == 0 || !header.at.has(option + length)) return;
        header.blank(option + length);
        const bool known = has_type(kNeighborTypes, type);
        header.copy_original(option + (known ? 0 : 1), known ? 2 : 1);
        if (has_length(kNeighborOptions, type, length))
            keep_neighbor_value(header, option, length, !seen.first(type));
        option += length;
    }
}

// Keeps `fixed` bytes and `addresses` addresses, and then the options.
void keep_neighbor(Header& header, std::size_t fixed, std::size_t addresses) {
    header.keep(fixed);
    const std::size_t options = fixed + addresses * kIpv6;
    if (keep_ipv6_each(header, fixed, addresses) == options) keep_neighbor_options(header, options);
}

// RFC 3810 section 5.1: version 2 has four more bytes (flags, QQIC, number of sources) and the sources.
void keep_listener_query(Header& header) {
    header.keep(kHeader);
    const std::size_t sources = keep_ipv6_each(header, kHeader, 1);
    if (sources != kHeader + kIpv6 || !header.at.has(sources + 4)) return;
    const std::size_t count = header.at.be16(sources + 2);
    if (header.at.reported() < sources + 4 + count * kIpv6) return;
    header.keep(sources + 4);
    keep_ipv6_each(header, sources + 4, count);
}

// RFC 3810 section 5.2.4: type, length of auxiliary data in words, number of sources, group, sources.
void keep_listener_report(Header& header) {
    header.keep(kHeader);
    std::size_t record = kHeader;
    for (std::size_t left = header.at.be16(6); left > 0 && header.at.has(record + 4 + kIpv6); --left) {
        const std::size_t sources = header.at.be16(record + 2);
        if (!is_record_type(header.at.u8(record))) return;
        header.keep(record + 4);
        const std::size_t end = keep_ipv6_each(header, record + 4, 1 + sources);
        if (end != record + 4 + kIpv6 * (1 + sources)) return;
        record = end + header.at.u8(record + 1) * std::size_t{4};
        header.blank(record);
    }
}

void keep_icmpv6_message(Header& header) {
    switch (header.at.u8(0)) {
        case 1:
        case 2:
        case 3:
        case 4:  // errors; quoted packets are dissected as further headers
        case 128:
        case 129:  // echo
            header.keep(kHeader);
            return;
        case 130:
            keep_listener_query(header);
            return;
        case 131:
        case 132:  // listener report, done
            header.keep(kHeader);
            keep_ipv6_each(header, kHeader, 1);
            return;
        case 133:  // router solicitation
            keep_neighbor(header, kHeader, 0);
            return;
        case 134:  // router advertisement
            if (header.at.has(16)) keep_neighbor(header, 16, 0);
            return;
        case 135:
        case 136:  // neighbor solicitation, advertisement
            keep_neighbor(header, kHeader, 1);
            return;
        case 137:  // redirect
            keep_neighbor(header, kHeader, 2);
            return;
        case 143:
            keep_listener_report(header);
            return;
        default:
            header.keep(4);
            return;
    }
}

void keep_icmp_message(Header& header) {
    switch (header.at.u8(0)) {
        case 0:   // echo reply
        case 3:   // destination unreachable
        case 4:   // source quench
        case 8:   // echo
        case 9:   // router advertisement: counts and lifetime, then addresses
        case 10:  // router solicitation
        case 11:  // time exceeded
        case 12:  // parameter problem
        case 13:
        case 14:
        case 15:
        case 16:
        case 17:
        case 18:  // timestamps, information, address masks: identifier and sequence number
            header.keep(kHeader);
            return;
        case 5:  // redirect
            header.keep(kHeader);
            header.ipv4(4);
            return;
        default:
            header.keep(4);
            return;
    }
}

// RFC 3376 section 4.2.4: type, length of auxiliary data in words, number of sources, group, sources.
void keep_igmp_records(Header& header) {
    std::size_t record = kHeader;
    for (std::size_t left = header.at.be16(6); left > 0; --left) {
        const std::size_t sources = header.at.be16(record + 2);
        const std::size_t end = record + 8 + 4 * sources + header.at.u8(record + 1) * std::size_t{4};
        if (!header.at.has(end) || !is_record_type(header.at.u8(record))) return;
        header.keep(record + 4);
        header.blank(end);
        for (std::size_t i = 0; i <= sources; ++i) header.ipv4(record + 4 + 4 * i);
        record = end;
    }
}

// RFC 3376 section 4.1: the additional fields of version 3 queries.
void keep_igmp_sources(Header& header) {
    const std::size_t count = header.at.be16(kHeader + 2);
    if (!header.at.has(kHeader + 4) || header.at.reported() < kHeader + 4 + 4 * count) return;
    header.keep(kHeader + 4);
    std::size_t source = kHeader + 4;
    for (std::size_t left = count; left > 0 && header.at.has(source + 4); --left, source += 4) {
        header.blank(source + 4);
        header.ipv4(source);
    }
}

}  // namespace

void keep_icmp(Header& header) {
    if (!header.at.has(kHeader)) return;
    keep_icmp_message(header);
    header.add_checksum(ChecksumKind::plain, 2);
}

void keep_icmpv6(Header& header) {
    if (!header.at.has(kHeader)) return;
    keep_icmpv6_message(header);
    header.add_checksum(ChecksumKind::pseudo, 2, kIcmpv6);
}

void keep_igmp(Header& header) {
    constexpr std::uint8_t kReport3 = 0x22;
    constexpr std::uint8_t kQuery = 0x11;
    if (!header.at.has(kHeader)) return;
    switch (header.at.u8(0)) {
        case kReport3:
            header.keep(kHeader);
            keep_igmp_records(header);
            break;
        case kQuery:
        case 0x12:
        case 0x16:
        case 0x17:
            header.keep(kHeader);
            header.ipv4(4);
            if (header.at.u8(0) == kQuery) keep_igmp_sources(header);
            break;
        default:
            header.keep(4);
            break;
    }
    header.add_checksum(ChecksumKind::plain, 2);
}

// The checksum of a Register message covers only its header (RFC 7761 section 4.9). In IPv6 it also covers a
// pseudo-header and is not recomputed.
void keep_pim(Header& header) {
    constexpr std::uint8_t kRegister = 0x21;
    if (!header.at.has(kHeader)) return;
    const bool is_register = header.at.u8(0) == kRegister;
    header.keep(is_register ? kHeader : 4);
    const bool in_ipv4 = header.builder.ip_version == 4;
    header.add_checksum(ChecksumKind::plain, 2, 0, is_register && in_ipv4 ? kHeader : UINT32_MAX);
}

}  // namespace acapella::anonymize
