// IPv4 and its options; IPv6 and its extension headers. Unknown and repeated options are replaced by padding.
#include <algorithm>

#include "anonymize/headers/checksum.hpp"
#include "anonymize/headers/keep.hpp"
#include "anonymize/lengths.hpp"
#include "anonymize/repeats.hpp"

namespace acapella::anonymize {
namespace {

constexpr std::size_t kIpv4Header = 20;

void map_ipv4_each(Header& header, std::size_t from, std::size_t to, std::size_t step) {
    for (; from + 4 <= to; from += step) header.ipv4(from);
}

// RFC 791 section 3.1: pointer, overflow and flag, then timestamps. Unless the flag is 0, an address precedes
// each timestamp.
void keep_ipv4_timestamps(Header& header, std::size_t option, std::size_t length) {
    constexpr std::size_t kStamps = 4;
    const unsigned flag = header.at.u8(option + 3) & 0x0fU;
    if (length < kStamps || !has_length(kIpv4Timestamps, flag, length)) return;
    if (flag == 0) return header.copy_original(option, std::min(length, kStamps + 4 * kMaxInRow));
    header.copy_original(option, length);
    map_ipv4_each(header, option + kStamps, option + length, 8);
}

// RFC 791 section 3.1: kind, length, data.
void keep_ipv4_value(Header& header, std::size_t option, std::size_t length) {
    constexpr std::uint8_t kTimestamps = 68;
    constexpr std::uint8_t kRouterAlert = 148;
    constexpr std::size_t kRoute = 3;  // kind, length, pointer
    const std::uint8_t kind = header.at.u8(option);
    header.copy_original(option, 2);
    if (kind == kTimestamps) return keep_ipv4_timestamps(header, option, length);
    if (!has_length(kIpv4Options, kind, length)) return;
    if (kind == kRouterAlert) return header.copy_original(option, length);
    header.copy_original(option, kRoute);
    map_ipv4_each(header, option + kRoute, option + length, 4);
}

void keep_ipv4_options(Header& header, std::size_t begin, std::size_t end) {
    constexpr std::uint8_t kLooseRoute = 131;
    constexpr std::uint8_t kStrictRoute = 137;
    Seen<256> seen;
    keep_options(header, begin, end, [&seen](Header& target, std::size_t option, std::size_t length) {
        const std::uint8_t kind = target.at.u8(option);
        if (kind == kLooseRoute || kind == kStrictRoute) target.builder.addresses_known = false;
        if (!has_type(kIpv4Kinds, kind) || !seen.first(kind)) return false;
        keep_ipv4_value(target, option, length);
        return true;
    });
}

// RFC 8200 section 4.2: type, length, data; zeros are padding. Each kept option may occur once (RFC 2473
// section 4.1.1, RFC 2711 section 2.1, RFC 2675 section 2, RFC 6275 section 6.3); padding may be repeated.
void keep_ipv6_option(Header& header, std::size_t option, std::size_t length, Seen<256>& seen) {
    constexpr std::uint8_t kPadN = 1;
    constexpr std::uint8_t kHomeAddress = 0xc9;
    const std::uint8_t type = header.at.u8(option);
    if (type == kHomeAddress) header.builder.addresses_known = false;
    if (!has_type(kIpv6Types, type) || (!seen.first(type) && type != kPadN)) return;
    header.copy_original(option, 2);
    if (!has_length(kIpv6Options, type, length)) return;
    if (type == kHomeAddress) return header.ipv6(option + 2);
    header.copy_original(option, length);
}

}  // namespace

void keep_ipv4(Header& header) {
    const std::size_t length = header.length();
    if (length < kIpv4Header) return;
    FrameBuilder& builder = header.builder;
    builder.ip_version = 4;
    builder.ip_begin = header.step.begin;
    builder.addresses_known = true;
    builder.fragment = (header.at.be16(6) & 0x3fff) != 0;
    header.keep(kIpv4Header);
    header.blank(length);
    header.ipv4(12);
    header.ipv4(16);
    keep_ipv4_options(header, kIpv4Header, length);
    header.put16(10, 0);
    InternetSum sum;
    sum.add(builder.bytes().subspan(header.step.begin));
    header.put16(10, sum.checksum());
}

void keep_ipv6(Header& header) {
    constexpr std::size_t kLength = 40;
    if (header.length() != kLength) return;
    FrameBuilder& builder = header.builder;
    builder.ip_version = 6;
    builder.ip_begin = header.step.begin;
    builder.addresses_known = true;
    builder.fragment = false;
    header.keep(kLength);
    header.ipv6(8);
    header.ipv6(24);
}

void keep_ipv6_options(Header& header) {
    const std::size_t end = header.length();
    if (end < 8) return;
    header.keep(2);
    header.blank(end);
    Seen<256> seen;
    for (std::size_t option = 2; option < end;) {
        if (header.at.u8(option) == 0) {  // Pad1
            ++option;
            continue;
        }
        const std::size_t length = header.at.u8(option + 1) + std::size_t{2};
        if (option + length > end) return;
        keep_ipv6_option(header, option, length, seen);
        option += length;
    }
}

void keep_ipv6_routing(Header& header) {
    constexpr std::size_t kFixed = 8;
    constexpr std::size_t kIpv6Address = 16;
    const std::size_t end = header.length();
    if (end < kFixed) return;
    header.keep(4);
    header.blank(end);
    // the final destination is the last address
    if (header.at.u8(3) != 0) header.builder.addresses_known = false;
    const std::size_t room = (end - kFixed) / kIpv6Address;
    std::size_t addresses = 0;
    switch (header.at.u8(2)) {
        case 0:  // source route, RFC 2460 section 4.4
            addresses = (end - kFixed) % kIpv6Address == 0 ? room : 0;
            break;
        case 2:  // mobility, RFC 6275 section 6.4
            addresses = end == kFixed + kIpv6Address ? 1 : 0;
            break;
        case 4:  // segment routing, RFC 8754 section 2; data after the segments is not kept
            addresses = header.at.u8(4) + std::size_t{1};
            if (addresses > room) return;
            header.copy_original(4, 4);
            break;
        default:
            return;
    }
    for (std::size_t i = 0; i < addresses; ++i) header.ipv6(kFixed + kIpv6Address * i);
}

void keep_ipv6_fragment(Header& header) {
    constexpr std::size_t kLength = 8;
    if (header.length() != kLength) return;
    header.keep(kLength);
    header.fill(1, 1, 0);  // reserved
    if ((header.at.be16(2) & 0xfff9) != 0) header.builder.fragment = true;
}

// The integrity check value is set to zero, because it cannot be recomputed.
void keep_authentication(Header& header) {
    if (header.length() < 12) return;
    header.keep(2);
    header.blank(header.length());
    header.copy_original(4, 8);  // after two reserved bytes
}

}  // namespace acapella::anonymize
