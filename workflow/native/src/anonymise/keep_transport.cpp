// TCP, UDP, UDP-Lite, SCTP. Ports and numbers stay; the addresses in MPTCP's and SCTP's parameters do not.
#include <algorithm>

#include "anonymise/keep.hpp"
#include "anonymise/lengths.hpp"

namespace acapella::anonymise {
namespace {

constexpr std::uint8_t kTcp = 6;
constexpr std::uint8_t kUdp = 17;
constexpr std::uint8_t kUdpLite = 136;
constexpr std::size_t kTcpHeader = 20;
constexpr std::size_t kUdpHeader = 8;
constexpr std::size_t kPorts = 4;
constexpr std::size_t kSctpHeader = 12;

// RFC 8684 3: subtype and flags; of ADD_ADDR (3.4.1) the address. Keys, tokens and check values are blank.
void keep_mptcp(Header& header, std::size_t option, std::size_t length) {
    constexpr std::size_t kFixed = 4;
    constexpr std::size_t kLongestWithIpv4 = 18;
    const unsigned subtype = header.at.u8(option + 2) >> 4;
    if (length < 3 || !has_length(kMptcpOptions, subtype, length)) return;
    header.show(option + 2, 1);
    if (subtype != kMptcpAddAddress) return;
    header.show(option + 3, 1);
    if (length <= kLongestWithIpv4) {
        header.ipv4(option + kFixed);
    } else {
        header.ipv6(option + kFixed);
    }
}

void keep_tcp_option(Header& header, std::size_t option, std::size_t length) {
    constexpr std::uint8_t kMptcp = 30;
    const std::uint8_t kind = header.at.u8(option);
    header.show(option, 2);
    if (kind == kMptcp) return keep_mptcp(header, option, length);
    if (has_length(kTcpOptions, kind, length)) header.show(option, length);
}

// RFC 9260 3.2.1: type, length, value; an address.
void keep_sctp_address(Header& header, std::size_t parameter, std::size_t length) {
    constexpr std::size_t kHead = 4;
    constexpr std::uint16_t kIpv4 = 5;
    constexpr std::uint16_t kIpv6 = 6;
    const std::uint16_t type = header.at.be16(parameter);
    header.show(parameter, kHead);
    if (!has_length(kSctpParameters, type, length)) return;
    if (type == kIpv4) header.ipv4(parameter + kHead);
    if (type == kIpv6) header.ipv6(parameter + kHead);
}

// RFC 5061 4.2: a number and an address parameter, which fills the rest.
void keep_sctp_numbered(Header& header, std::size_t parameter, std::size_t length) {
    constexpr std::size_t kNumbered = 8;
    const std::size_t inner = header.at.be16(parameter + kNumbered + 2);
    const std::uint16_t type = header.at.be16(parameter + kNumbered);
    if (inner + kNumbered != length || type > 6 || !has_length(kSctpParameters, type, inner)) return;
    header.show(parameter, kNumbered);
    keep_sctp_address(header, parameter + kNumbered, inner);
}

void keep_sctp_parameter(Header& header, std::size_t parameter, std::size_t length) {
    header.show(parameter, 4);
    const std::uint16_t type = header.at.be16(parameter);
    if (!has_length(kSctpParameters, type, length)) return;
    switch (type) {
        case 12:  // types of addresses
            header.show(parameter, length);
            return;
        case 0xc001:
        case 0xc002:
        case 0xc004:  // add, delete, prefer an address
            keep_sctp_numbered(header, parameter, length);
            return;
        default:
            keep_sctp_address(header, parameter, length);
            return;
    }
}

void keep_sctp_parameters(Header& header, std::size_t parameter, std::size_t end) {
    while (parameter + 4 <= end) {
        const std::size_t length = header.at.be16(parameter + 2);
        if (length < 4 || parameter + length > end) return;
        keep_sctp_parameter(header, parameter, length);
        parameter += (length + 3) & ~std::size_t{3};
    }
}

// A chunk that was captured whole. Cookies, heartbeats and causes of errors are blank.
void keep_sctp_chunk(Header& header, std::size_t chunk, std::size_t length) {
    constexpr std::size_t kTsn = 8;  // with the chunk's head
    constexpr std::size_t kInit = 20;
    const std::uint8_t type = header.at.u8(chunk);
    header.show(chunk, 4);
    if (!has_length(kSctpChunks, type, length)) return;
    switch (type) {
        case 1:
        case 2:  // INIT and its acknowledgment
            header.show(chunk, kInit);
            keep_sctp_parameters(header, chunk + kInit, chunk + length);
            return;
        case 3:  // SACK
            if (length == sack_length(header.at.be16(chunk + 12), header.at.be16(chunk + 14)))
                header.show(chunk, length);
            return;
        case 0xc1:  // ASCONF
            header.show(chunk, kTsn);
            keep_sctp_parameters(header, chunk + kTsn, chunk + length);
            return;
        default:  // a TSN and, of some, what is not kept
            header.show(chunk, kTsn);
            return;
    }
}

void keep_sctp_chunks(Header& header) {
    constexpr std::uint8_t kData = 0;
    constexpr std::uint8_t kIData = 64;  // RFC 8260
    for (std::size_t chunk = kSctpHeader; header.at.has(chunk + 4);) {
        const std::uint8_t type = header.at.u8(chunk);
        const std::size_t length = header.at.be16(chunk + 2);
        if (type == kData || type == kIData) {
            const std::size_t head = type == kData ? 16 : 20;
            if (length >= head && header.at.has(chunk + head)) header.keep(chunk + head);
            return;
        }
        if (length < 4 || !header.at.has(chunk + length)) return;
        const std::size_t padded = (length + 3) & ~std::size_t{3};
        header.blank(chunk + std::min(padded, header.at.captured() - chunk));
        keep_sctp_chunk(header, chunk, length);
        chunk += padded;
    }
}

}  // namespace

// Where not all was captured, as in a quote: the fields that were.
void keep_tcp(Header& header) {
    const std::size_t captured = header.at.captured();
    const std::size_t length = (header.at.u8(12) >> 4) * std::size_t{4};
    if (captured < kTcpHeader) {
        header.keep(captured & ~std::size_t{3});
    } else if (length < kTcpHeader || length > header.at.reported()) {
        return;
    } else {
        header.keep(kTcpHeader);
        if (header.at.has(length)) {
            header.blank(length);
            keep_options(header, kTcpHeader, length, keep_tcp_option);
        }
    }
    header.owe(SumKind::pseudo, 16, kTcp);
}

void keep_udp(Header& header) {
    if (header.length() != kUdpHeader) {
        if (header.at.captured() < kUdpHeader && header.at.has(kPorts)) header.keep(kPorts);
        return;
    }
    header.keep(kUdpHeader);
    const std::size_t length = header.at.be16(4);
    header.owe(SumKind::udp, 6, kUdp, length);
}

// RFC 3828 3.1: of the first `coverage` octets; 0 is all.
void keep_udplite(Header& header) {
    if (header.length() != kUdpHeader) return;
    header.keep(kUdpHeader);
    const std::size_t coverage = header.at.be16(4);
    const bool all = coverage == 0 || coverage > header.at.reported();
    header.owe(SumKind::udp, 6, kUdpLite, all ? header.at.reported() : coverage);
}

void keep_sctp(Header& header) {
    if (!header.at.has(kSctpHeader)) return;
    header.keep(kSctpHeader);
    keep_sctp_chunks(header);
    header.owe(SumKind::crc32c, 8);
}

}  // namespace acapella::anonymise
