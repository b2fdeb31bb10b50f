// IPv4 and its options; IPv6 and its extension headers. An option that is not known keeps its kind and
// length.
#include "anonymise/checksum.hpp"
#include "anonymise/keep.hpp"

namespace acapella::anonymise {
namespace {

constexpr std::size_t kIpv4Header = 20;

void map_ipv4_each(Header& header, std::size_t from, std::size_t to, std::size_t step) {
    for (; from + 4 <= to; from += step) header.ipv4(from);
}

// RFC 791 3.1: kind, length, data.
void keep_ipv4_option(Header& header, std::size_t option, std::size_t length) {
    constexpr std::size_t kRoute = 3;  // kind, length, pointer
    const std::size_t end = option + length;
    header.show(option, 2);
    switch (header.at.u8(option)) {
        case 131:  // loose source route
        case 137:  // strict source route
            header.draft.ends_known = false;
            [[fallthrough]];
        case 7:  // record route
            if (length < kRoute) return;
            header.show(option, kRoute);
            map_ipv4_each(header, option + kRoute, end, 4);
            return;
        case 68: {  // time stamps: alone (0), or each behind an address (1, 3)
            constexpr std::size_t kStamps = 4;
            if (length < kStamps) return;
            const bool alone = (header.at.u8(option + 3) & 0x0f) == 0;
            const std::size_t each = alone ? 4 : 8;
            const std::size_t whole = (length - kStamps) / each * each;
            header.show(option, kStamps + whole);
            if (!alone) map_ipv4_each(header, option + kStamps, option + kStamps + whole, each);
            return;
        }
        case 148:  // router alert, RFC 2113
            header.show(option, length);
            return;
        default:
            return;
    }
}

// RFC 8200 4.2: type, length, data.
void keep_ipv6_option(Header& header, std::size_t option, std::size_t length) {
    header.show(option, 2);
    switch (header.at.u8(option)) {
        case 0x04:  // tunnel encapsulation limit, RFC 2473 4.1.1
        case 0x05:  // router alert, RFC 2711
        case 0xc2:  // jumbogram, RFC 2675
            header.show(option, length);
            return;
        case 0xc9:  // home address, RFC 6275 6.3
            header.draft.ends_known = false;
            if (length == 18) header.ipv6(option + 2);
            return;
        default:
            return;
    }
}

}  // namespace

void keep_ipv4(Header& header) {
    const std::size_t length = header.length();
    if (length < kIpv4Header) return;
    Draft& draft = header.draft;
    draft.ip_version = 4;
    draft.ip_begin = header.step.begin;
    draft.ends_known = true;
    draft.fragment = (header.at.be16(6) & 0x3fff) != 0;
    header.keep(kIpv4Header);
    header.blank(length);
    header.ipv4(12);
    header.ipv4(16);
    keep_options(header, kIpv4Header, length, keep_ipv4_option);
    header.put16(10, 0);
    InternetSum sum;
    sum.add(draft.bytes().subspan(header.step.begin));
    header.put16(10, sum.checksum());
}

void keep_ipv6(Header& header) {
    constexpr std::size_t kLength = 40;
    if (header.length() != kLength) return;
    Draft& draft = header.draft;
    draft.ip_version = 6;
    draft.ip_begin = header.step.begin;
    draft.ends_known = true;
    draft.fragment = false;
    header.keep(kLength);
    header.ipv6(8);
    header.ipv6(24);
}

void keep_ipv6_options(Header& header) {
    const std::size_t end = header.length();
    if (end < 8) return;
    header.keep(2);
    header.blank(end);
    for (std::size_t option = 2; option < end;) {
        if (header.at.u8(option) == 0) {  // Pad1
            ++option;
            continue;
        }
        const std::size_t length = header.at.u8(option + 1) + std::size_t{2};
        if (option + length > end) return;
        keep_ipv6_option(header, option, length);
        option += length;
    }
}

void keep_ipv6_routing(Header& header) {
    constexpr std::size_t kFixed = 8;
    const std::size_t end = header.length();
    if (end < kFixed) return;
    header.keep(4);
    header.blank(end);
    if (header.at.u8(3) != 0) header.draft.ends_known = false;  // the last address is the packet's end
    std::size_t addresses = 0;
    switch (header.at.u8(2)) {
        case 0:  // source route, RFC 2460 4.4
        case 2:  // mobility, RFC 6275 6.4
            addresses = (end - kFixed) / 16;
            break;
        case 4:  // segment routing, RFC 8754 2; what follows the segments is not known
            header.show(4, 4);
            addresses = header.at.u8(4) + std::size_t{1};
            break;
        default:
            return;
    }
    for (std::size_t i = 0; i < addresses && kFixed + 16 * (i + 1) <= end; ++i) header.ipv6(kFixed + 16 * i);
}

void keep_ipv6_fragment(Header& header) {
    constexpr std::size_t kLength = 8;
    if (header.length() != kLength) return;
    header.keep(kLength);
    if ((header.at.be16(2) & 0xfff9) != 0) header.draft.fragment = true;
}

// The check value is of what was sent, and nobody can make another.
void keep_authentication(Header& header) {
    if (header.length() < 12) return;
    header.keep(12);
    header.blank(header.length());
}

}  // namespace acapella::anonymise
