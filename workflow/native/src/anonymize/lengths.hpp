// The lengths, as specified in RFCs, of the options, chunks and parameters whose values are kept. A value of
// any other length is set to zero, because it could contain arbitrary data, including payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace acapella::anonymize {

// The lengths `first`, `first` + `step`, ..., `last`, including type and length fields.
struct KeptLength {
    std::uint16_t type;
    std::uint16_t first;
    std::uint16_t step = 1;
    std::uint16_t last = 0;  // 0: only `first`
};

constexpr bool has_length(std::span<const KeptLength> table, unsigned type, std::size_t length) {
    for (const KeptLength& row : table) {
        const std::size_t last = row.last == 0 ? row.first : row.last;
        if (row.type == type && length >= row.first && length <= last && (length - row.first) % row.step == 0)
            return true;
    }
    return false;
}

// Returns the index of a type in a table, or the table's size if the table does not contain it.
template <typename Type, std::size_t Size>
constexpr std::size_t index_of(const Type (&table)[Size], unsigned type) {
    std::size_t index = 0;
    while (index < Size && table[index] != type) ++index;
    return index;
}

template <typename Type, std::size_t Size>
constexpr bool has_type(const Type (&table)[Size], unsigned type) {
    return index_of(table, type) < Size;
}

inline constexpr KeptLength kIpv4Options[] = {
    {7, 3, 4, 39},    // record route, RFC 791 section 3.1
    {131, 3, 4, 39},  // loose source route, RFC 791 section 3.1
    {137, 3, 4, 39},  // strict source route, RFC 791 section 3.1
    {148, 4},         // router alert, RFC 2113 section 2.1
};

// Options whose kind and length are kept: the options above, and timestamps.
inline constexpr std::uint8_t kIpv4Kinds[] = {7, 68, 131, 137, 148};

// RFC 791 section 3.1, by flag: timestamps only (0), with addresses (1), with prespecified addresses (3).
inline constexpr KeptLength kIpv4Timestamps[] = {{0, 4, 4, 40}, {1, 4, 8, 36}, {3, 4, 8, 36}};

inline constexpr KeptLength kIpv6Options[] = {
    {0x04, 3},   // tunnel encapsulation limit, RFC 2473 section 4.1.1
    {0x05, 4},   // router alert, RFC 2711 section 2.1
    {0xc2, 6},   // jumbogram, RFC 2675 section 2
    {0xc9, 18},  // home address, RFC 6275 section 6.3
};

// Options whose type and length are kept: padding, and the options above.
inline constexpr std::uint8_t kIpv6Types[] = {0x01, 0x04, 0x05, 0xc2, 0xc9};

inline constexpr KeptLength kTcpOptions[] = {
    {2, 4},          // maximum segment size, RFC 9293 section 3.2
    {3, 3},          // window scale, RFC 7323 section 2.2
    {4, 2},          // selective acknowledgment permitted, RFC 2018 section 2
    {5, 10, 8, 34},  // SACK blocks, RFC 2018 section 3
    {8, 10},         // timestamps, RFC 7323 section 3.2
};

// Options whose kind and length are kept: the options above, MD5 signature (RFC 2385), User Timeout (RFC
// 5482), TCP-AO (RFC 5925), MPTCP (RFC 8684) and Fast Open (RFC 7413).
inline constexpr std::uint8_t kTcpKinds[] = {2, 3, 4, 5, 8, 19, 28, 29, 30, 34};

// Only the first SACK block is kept, which contains the newest segment (RFC 2018 section 4), because four
// blocks are 32 contiguous bytes.
inline constexpr std::uint8_t kTcpSack = 5;
inline constexpr std::size_t kTcpSackKept = 10;

// By subtype, RFC 8684 section 3; ADD_ADDR with or without a port and an HMAC.
inline constexpr std::uint8_t kMptcpAddAddress = 3;
inline constexpr KeptLength kMptcpOptions[] = {
    {0, 4, 8, 20}, {0, 22, 2, 24}, {1, 12, 4, 16}, {1, 24},  // MP_CAPABLE, MP_JOIN
    {2, 4, 4, 12}, {2, 14, 2, 28},                           // DSS
    {3, 8, 2, 10}, {3, 16, 2, 18}, {3, 20, 2, 22}, {3, 28, 2, 30},
    {4, 4, 1, 40}, {5, 3, 1, 4},   {6, 12},        {7, 12},  // REMOVE_ADDR, MP_PRIO, MP_FAIL, MP_FASTCLOSE
    {8, 4},                                                  // MP_TCPRST
};

// Chunks whose value is kept if the length is valid. After the fixed fields, only the parameters of INIT,
// INIT ACK and ASCONF, and the SACK blocks selected by KeptBlocks, are kept.
inline constexpr KeptLength kSctpChunks[] = {
    {1, 20, 1, 0xffff},     // INIT, RFC 9260 section 3.3.2
    {2, 20, 1, 0xffff},     // INIT ACK, RFC 9260 section 3.3.3
    {3, 16, 4, 0xfffc},     // SACK, RFC 9260 section 3.3.4
    {7, 8},                 // SHUTDOWN, RFC 9260 section 3.3.8
    {12, 8},                // ECNE, RFC 4960 appendix A
    {13, 8},                // CWR, RFC 4960 appendix A
    {0x80, 8, 1, 0xffff},   // ASCONF-ACK, RFC 5061 section 4.1.2
    {0xc0, 8, 4, 0xfffc},   // FORWARD TSN, RFC 3758 section 3.2
    {0xc1, 16, 1, 0xffff},  // ASCONF, RFC 5061 section 4.1.1
};

// The chunks defined in RFC 9260 section 3.2, RFC 4895, RFC 8260, RFC 5061, RFC 6525, RFC 4820 and RFC 3758.
// DATA (0) and I-DATA (64) are handled separately. Others are replaced by PAD.
inline constexpr std::uint8_t kSctpPad = 0x84;
inline constexpr std::uint8_t kSctpTypes[] = {1,  2,  3,  4,  5,    6,    7,        8,    9,    10,  11,
                                              12, 13, 14, 15, 0x80, 0x82, kSctpPad, 0xc0, 0xc1, 0xc2};

// The allowed flags of a chunk: those of RFC 9260 section 3.3.1 for data, and T for ABORT and SHUTDOWN
// COMPLETE.
constexpr std::uint8_t sctp_flags(unsigned type) {
    if (type == 0 || type == 64) return 0x0f;
    return type == 6 || type == 14 ? 0x01 : 0x00;
}

// Length of a SACK chunk with these numbers of gap blocks and duplicate TSNs, RFC 9260 section 3.3.4.
constexpr std::size_t sack_length(std::size_t gap_blocks, std::size_t duplicates) {
    return 16 + 4 * (gap_blocks + duplicates);
}

inline constexpr KeptLength kSctpParameters[] = {
    {5, 8},                // IPv4 address, RFC 9260 section 3.3.2.1.1
    {6, 20},               // IPv6 address, RFC 9260 section 3.3.2.1.2
    {12, 6, 2, 10},        // supported address types, of which three are defined, RFC 9260 section 3.3.2.1.5
    {0xc001, 16, 12, 28},  // add an address, RFC 5061 section 4.2.1
    {0xc002, 16, 12, 28},  // delete an address, RFC 5061 section 4.2.2
    {0xc004, 16, 12, 28},  // set primary address, RFC 5061 section 4.2.4
};

// The parameters defined in RFC 9260 section 3.3, RFC 4895, RFC 4820, RFC 5061 and RFC 3758; others get the
// unused type 0.
inline constexpr std::uint16_t kSctpParameterTypes[] = {
    1,      5,      6,      7,      8,      9,      11,     12,     0x8000, 0x8002, 0x8003,
    0x8004, 0x8005, 0x8008, 0xc000, 0xc001, 0xc002, 0xc003, 0xc004, 0xc005, 0xc006};

// The address types in parameter 12, RFC 9260 section 3.3.2.1.5.
inline constexpr std::uint16_t kSctpAddressTypes[] = {5, 6, 11};

inline constexpr KeptLength kNeighborOptions[] = {
    {1, 8},              // source link-layer address, RFC 4861 section 4.6.1
    {2, 8},              // target link-layer address, RFC 4861 section 4.6.1
    {3, 32},             // prefix information, RFC 4861 section 4.6.2
    {5, 8},              // MTU, RFC 4861 section 4.6.4
    {24, 8, 8, 24},      // route information, RFC 4191 section 2.3
    {25, 24, 16, 2040},  // recursive DNS servers, RFC 8106 section 5.1
};

// The options above, redirected header, advertisement interval and home agent information (RFC 6275), nonce
// (RFC 3971), DNSSL (RFC 8106), captive portal (RFC 8910) and PREF64 (RFC 8781); others get the unused type
// 0.
inline constexpr std::uint8_t kNeighborTypes[] = {1, 2, 3, 4, 5, 7, 8, 14, 24, 25, 31, 37, 38};

// Class and type of Geneve options: OVN's port, and the endpoint, attachment and flow of AWS load balancers.
inline constexpr std::uint32_t kGeneveTypes[] = {0x010280, 0x010801, 0x010802, 0x010803};

// Extension headers of GTP-U, 3GPP TS 29.281 clause 5.2.1.
inline constexpr std::uint8_t kGtpExtensions[] = {0x01, 0x02, 0x03, 0x20, 0x40, 0x81, 0x82,
                                                  0x83, 0x84, 0x85, 0xc0, 0xc1, 0xc2};

// Returns true for a group record type (RFC 3376 section 4.2.12, RFC 3810 section 5.2.12).
constexpr bool is_record_type(unsigned type) { return type >= 1 && type <= 6; }

// Returns true for a source route of addresses (IPv4) or AS numbers with a valid offset (RFC 1701).
constexpr bool is_source_route(unsigned family, std::size_t offset, std::size_t length) {
    return (family == 0x0800 || family == 0xfffe) && offset <= length;
}

}  // namespace acapella::anonymize
