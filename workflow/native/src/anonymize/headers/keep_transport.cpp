// TCP, UDP, UDP-Lite, SCTP. Ports and sequence numbers are kept; addresses in MPTCP and SCTP parameters are
// replaced.
#include <algorithm>

#include "anonymize/headers/keep.hpp"
#include "anonymize/lengths.hpp"
#include "anonymize/repeats.hpp"

namespace acapella::anonymize {
namespace {

constexpr std::uint8_t kTcp = 6;
constexpr std::uint8_t kUdp = 17;
constexpr std::uint8_t kUdpLite = 136;
constexpr std::size_t kTcpHeader = 20;
constexpr std::size_t kUdpHeader = 8;
constexpr std::size_t kPorts = 4;
constexpr std::size_t kSctpHeader = 12;

// RFC 8684 section 3: keeps subtype and flags, and the address of ADD_ADDR (section 3.4.1). Keys, tokens and
// HMACs are set to zero.
void keep_mptcp(Header& header, std::size_t option, std::size_t length) {
    constexpr std::size_t kFixed = 4;
    constexpr std::size_t kLongestWithIpv4 = 18;
    const unsigned subtype = header.at.u8(option + 2) >> 4;
    if (length < 3 || !has_length(kMptcpOptions, subtype, length)) return;
    header.copy_original(option + 2, 1);
    if (subtype != kMptcpAddAddress) return;
    header.copy_original(option + 3, 1);
    if (length <= kLongestWithIpv4) {
        header.ipv4(option + kFixed);
    } else {
        header.ipv6(option + kFixed);
    }
}

// Keeps the first block; the other blocks are replaced by padding.
void keep_tcp_sack(Header& header, std::size_t option, std::size_t length) {
    constexpr std::uint8_t kNoOperation = 1;
    header.copy_original(option, kTcpSackKept);
    if (length == kTcpSackKept) return;
    header.fill(option + 1, 1, kTcpSackKept);
    header.fill(option + kTcpSackKept, length - kTcpSackKept, kNoOperation);
}

// Each option kind may occur once. For MPTCP, each subtype may occur once.
void keep_tcp_options(Header& header, std::size_t begin, std::size_t end) {
    constexpr std::uint8_t kMptcp = 30;
    Seen<512> seen;
    keep_options(header, begin, end, [&seen](Header& target, std::size_t option, std::size_t length) {
        const std::uint8_t kind = target.at.u8(option);
        const std::size_t type = kind == kMptcp && length > 2 ? 256 + (target.at.u8(option + 2) >> 4) : kind;
        if (!has_type(kTcpKinds, kind) || !seen.first(type)) return false;
        target.copy_original(option, 2);
        const bool has_valid_length = has_length(kTcpOptions, kind, length);
        if (kind == kMptcp) {
            keep_mptcp(target, option, length);
        } else if (has_valid_length && kind == kTcpSack) {
            keep_tcp_sack(target, option, length);
        } else if (has_valid_length) {
            target.copy_original(option, length);
        }
        return true;
    });
}

// RFC 9260 section 3.2.1: an address parameter has a type, a length, and a value.
void keep_sctp_address(Header& header, std::size_t parameter, std::size_t length) {
    constexpr std::size_t kHead = 4;
    constexpr std::uint16_t kIpv4Type = 5;
    constexpr std::uint16_t kIpv6Type = 6;
    const std::uint16_t type = header.at.be16(parameter);
    header.copy_original(parameter, kHead);
    if (!has_length(kSctpParameters, type, length)) return;
    if (type == kIpv4Type) header.ipv4(parameter + kHead);
    if (type == kIpv6Type) header.ipv6(parameter + kHead);
}

// RFC 5061 section 4.2: a number and an address parameter, which fills the rest.
void keep_sctp_numbered(Header& header, std::size_t parameter, std::size_t length, bool repeated) {
    constexpr std::size_t kNumbered = 8;
    const std::size_t inner = header.at.be16(parameter + kNumbered + 2);
    const std::uint16_t type = header.at.be16(parameter + kNumbered);
    if (inner + kNumbered != length || type > 6 || !has_length(kSctpParameters, type, inner)) return;
    if (!repeated) header.copy_original(parameter, kNumbered);
    keep_sctp_address(header, parameter + kNumbered, inner);
}

// RFC 9260 section 3.3.2.1.5: keeps the address types if all of them are valid.
void keep_sctp_types(Header& header, std::size_t parameter, std::size_t length) {
    for (std::size_t at = parameter + 4; at < parameter + length; at += 2)
        if (!has_type(kSctpAddressTypes, header.at.be16(at))) return;
    header.copy_original(parameter, length);
}

// Keeps a parameter. If the parameter is repeated, keeps only its addresses.
void keep_sctp_parameter(Header& header, std::size_t parameter, std::size_t length, bool repeated) {
    const std::uint16_t type = header.at.be16(parameter);
    const bool known = has_type(kSctpParameterTypes, type);
    header.copy_original(parameter + (known ? 0 : 2), known ? 4 : 2);
    if (!has_length(kSctpParameters, type, length)) return;
    switch (type) {
        case 12:
            if (!repeated) keep_sctp_types(header, parameter, length);
            return;
        case 0xc001:
        case 0xc002:
        case 0xc004:  // add, delete, prefer an address
            keep_sctp_numbered(header, parameter, length, repeated);
            return;
        default:
            keep_sctp_address(header, parameter, length);
            return;
    }
}

void keep_sctp_parameters(Header& header, std::size_t parameter, std::size_t end) {
    Seen<std::size(kSctpParameterTypes) + 1> seen;
    while (parameter + 4 <= end) {
        const std::size_t length = header.at.be16(parameter + 2);
        if (length < 4 || parameter + length > end) return;
        const std::size_t index = index_of(kSctpParameterTypes, header.at.be16(parameter));
        keep_sctp_parameter(header, parameter, length, !seen.first(index));
        parameter += (length + 3) & ~std::size_t{3};
    }
}

// RFC 9260 section 3.3.4: keeps the first gap blocks and duplicates; a PAD chunk replaces the others.
void keep_sctp_sack(Header& header, std::size_t chunk, std::size_t length) {
    const std::size_t gaps = header.at.be16(chunk + 12);
    const std::size_t duplicates = header.at.be16(chunk + 14);
    if (length != sack_length(gaps, duplicates)) return;
    const auto blocks = KeptBlocks::of(gaps, duplicates);
    const std::size_t kept = sack_length(blocks.gaps, blocks.duplicates);
    header.copy_original(chunk + 2, kept - 2);
    if (kept == length) return;
    header.put16(chunk + 2, static_cast<std::uint16_t>(kept));
    header.put16(chunk + 12, static_cast<std::uint16_t>(blocks.gaps));
    header.put16(chunk + 14, static_cast<std::uint16_t>(blocks.duplicates));
    header.fill(chunk + kept, 1, kSctpPad);
    header.put16(chunk + kept + 2, static_cast<std::uint16_t>(length - kept));
}

// Keeps the value of a completely captured chunk. Cookies, heartbeats and error causes are set to zero.
void keep_sctp_value(Header& header, std::size_t chunk, std::size_t length) {
    constexpr std::size_t kHead = 4;
    constexpr std::size_t kTsn = 4;
    constexpr std::size_t kInit = 16;
    const std::uint8_t type = header.at.u8(chunk);
    const std::size_t value = chunk + kHead;
    if (!has_length(kSctpChunks, type, length)) return;
    switch (type) {
        case 1:
        case 2:  // INIT and its acknowledgment
            if (!is_alone(header.at, chunk, length)) return;
            header.copy_original(value, kInit);
            keep_sctp_parameters(header, value + kInit, chunk + length);
            return;
        case 3:
            return keep_sctp_sack(header, chunk, length);
        case 0xc1:  // ASCONF
            header.copy_original(value, kTsn);
            keep_sctp_parameters(header, value + kTsn, chunk + length);
            return;
        default:  // a TSN; any data after it is not kept
            header.copy_original(value, kTsn);
            return;
    }
}

void keep_sctp_flags(Header& header, std::size_t chunk) {
    header.fill(chunk + 1, 1, header.at.u8(chunk + 1) & sctp_flags(header.at.u8(chunk)));
}

// Keeps a chunk. If its type is repeated, its value is set to zero and its length is kept.
void keep_sctp_chunk(Header& header, std::size_t chunk, std::size_t length, Seen<256>& seen) {
    const std::uint8_t type = header.at.u8(chunk);
    header.copy_original(chunk, 4);
    keep_sctp_flags(header, chunk);
    if (!has_type(kSctpTypes, type)) return header.fill(chunk, 1, kSctpPad);
    if (seen.first(type)) keep_sctp_value(header, chunk, length);
}

// Keeps the header of a data chunk, except for reserved fields.
void keep_sctp_data(Header& header, std::size_t chunk, bool interleaved) {
    const std::size_t head = interleaved ? 20 : 16;
    if (header.at.be16(chunk + 2) < head || !header.at.has(chunk + head)) return;
    header.keep(chunk + head);
    keep_sctp_flags(header, chunk);
    if (interleaved) header.put16(chunk + 10, 0);
}

void keep_sctp_chunks(Header& header) {
    constexpr std::uint8_t kData = 0;
    constexpr std::uint8_t kIData = 64;  // RFC 8260
    Seen<256> seen;
    for (std::size_t chunk = kSctpHeader; header.at.has(chunk + 4);) {
        const std::uint8_t type = header.at.u8(chunk);
        const std::size_t length = header.at.be16(chunk + 2);
        if (type == kData || type == kIData) return keep_sctp_data(header, chunk, type == kIData);
        if (length < 4 || !header.at.has(chunk + length)) return;
        const std::size_t padded = (length + 3) & ~std::size_t{3};
        header.blank(chunk + std::min(padded, header.at.captured() - chunk));
        keep_sctp_chunk(header, chunk, length, seen);
        chunk += padded;
    }
}

}  // namespace

// Also keeps the captured fields of a truncated header, for example in a quoted packet.
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
            keep_tcp_options(header, kTcpHeader, length);
        }
    }
    header.add_checksum(ChecksumKind::pseudo, 16, kTcp);
}

void keep_udp(Header& header) {
    if (header.length() != kUdpHeader) {
        if (header.at.captured() < kUdpHeader && header.at.has(kPorts)) header.keep(kPorts);
        return;
    }
    header.keep(kUdpHeader);
    const std::size_t length = header.at.be16(4);
    header.add_checksum(ChecksumKind::udp, 6, kUdp, length);
}

// RFC 3828 section 3.1: the checksum covers the first `coverage` bytes, or the whole packet if `coverage` is
// 0.
void keep_udplite(Header& header) {
    if (header.length() != kUdpHeader) return;
    header.keep(kUdpHeader);
    const std::size_t coverage = header.at.be16(4);
    const bool covers_all = coverage == 0 || coverage > header.at.reported();
    header.add_checksum(ChecksumKind::udp, 6, kUdpLite, covers_all ? header.at.reported() : coverage);
}

void keep_sctp(Header& header) {
    if (!header.at.has(kSctpHeader)) return;
    header.keep(kSctpHeader);
    keep_sctp_chunks(header);
    header.add_checksum(ChecksumKind::crc32c, 8);
}

}  // namespace acapella::anonymize
