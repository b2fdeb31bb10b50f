// TCP, UDP, UDP-Lite, SCTP. Ports and numbers stay; the addresses in MPTCP's and SCTP's parameters do not.
#include <algorithm>

#include "anonymise/keep.hpp"

namespace acapella::anonymise {
namespace {

constexpr std::uint8_t kTcp = 6;
constexpr std::uint8_t kUdp = 17;
constexpr std::uint8_t kUdpLite = 136;
constexpr std::size_t kTcpHeader = 20;
constexpr std::size_t kUdpHeader = 8;
constexpr std::size_t kPorts = 4;
constexpr std::size_t kSctpHeader = 12;

// RFC 8684 3.4.1; keys, tokens and check values are blank.
void keep_mptcp(Header& header, std::size_t option, std::size_t length) {
    constexpr std::uint8_t kAddAddress = 3;
    constexpr std::size_t kFixed = 4;
    if (length < kFixed) return;
    header.show(option + 2, 1);
    if (header.at.u8(option + 2) >> 4 != kAddAddress) return;
    header.show(option + 3, 1);
    switch (length) {  // with or without a port and a check value
        case 8:
        case 10:
        case 16:
        case 18:
            header.ipv4(option + kFixed);
            return;
        case 20:
        case 22:
        case 28:
        case 30:
            header.ipv6(option + kFixed);
            return;
        default:
            return;
    }
}

void keep_tcp_option(Header& header, std::size_t option, std::size_t length) {
    constexpr std::uint8_t kMptcp = 30;
    header.show(option, 2);
    switch (header.at.u8(option)) {
        case 2:  // maximum segment size
        case 3:  // window scale
        case 4:  // selective acknowledgment: permitted, and blocks
        case 5:
        case 8:  // time stamps
            header.show(option, length);
            return;
        case kMptcp:
            keep_mptcp(header, option, length);
            return;
        default:
            return;
    }
}

// RFC 9260 3.2.1 and RFC 5061 4.1: type, length, value; an address, or in ASCONF a number and an address.
void keep_sctp_parameter(Header& header, std::size_t parameter, std::size_t length) {
    constexpr std::size_t kHead = 4;
    header.show(parameter, kHead);
    switch (header.at.be16(parameter)) {
        case 5:
            if (length == 8) header.ipv4(parameter + kHead);
            return;
        case 6:
            if (length == 20) header.ipv6(parameter + kHead);
            return;
        case 12:  // types of addresses
            header.show(parameter, length);
            return;
        case 0xc001:
        case 0xc002:
        case 0xc004: {  // add, delete, prefer an address
            constexpr std::size_t kNumbered = 8;
            if (length < kNumbered + kHead) return;
            header.show(parameter, kNumbered);
            const std::size_t inner = header.at.be16(parameter + kNumbered + 2);
            if (inner + kNumbered <= length && header.at.be16(parameter + kNumbered) < 7)
                keep_sctp_parameter(header, parameter + kNumbered, inner);
            return;
        }
        default:
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
    header.show(chunk, 4);
    const std::size_t end = chunk + length;
    const auto show = [&](std::size_t count) { header.show(chunk, std::min(count, length)); };
    switch (header.at.u8(chunk)) {
        case 1:
        case 2:  // INIT and its acknowledgment
            show(20);
            keep_sctp_parameters(header, chunk + 20, end);
            return;
        case 3:  // SACK
            show(length);
            return;
        case 7:     // SHUTDOWN
        case 12:    // ECNE
        case 13:    // CWR
        case 192:   // FORWARD TSN
        case 0x80:  // ASCONF-ACK
            show(8);
            return;
        case 0xc1:  // ASCONF
            show(8);
            keep_sctp_parameters(header, chunk + 8, end);
            return;
        default:
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
