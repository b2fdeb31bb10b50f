// The lengths that RFCs give options, chunks and parameters of which the value is kept. A value of any other
// length becomes zeros: its bytes may be anything, payload included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace acapella::anonymise {

// The lengths `first`, `first` + `step`, ..., `last`, type and length fields included.
struct KeptLength {
    std::uint16_t type;
    std::uint16_t first;
    std::uint16_t step = 1;
    std::uint16_t last = 0;  // 0: `first` alone
};

constexpr bool has_length(std::span<const KeptLength> table, unsigned type, std::size_t length) {
    for (const KeptLength& row : table) {
        const std::size_t last = row.last == 0 ? row.first : row.last;
        if (row.type == type && length >= row.first && length <= last && (length - row.first) % row.step == 0)
            return true;
    }
    return false;
}

inline constexpr KeptLength kIpv4Options[] = {
    {7, 3, 4, 39},    // record route, RFC 791 3.1
    {131, 3, 4, 39},  // loose source route, RFC 791 3.1
    {137, 3, 4, 39},  // strict source route, RFC 791 3.1
    {148, 4},         // router alert, RFC 2113 2.1
};

// RFC 791 3.1, by flag: timestamps alone (0), behind addresses (1), behind prespecified addresses (3).
inline constexpr KeptLength kIpv4Timestamps[] = {{0, 4, 4, 40}, {1, 4, 8, 36}, {3, 4, 8, 36}};

inline constexpr KeptLength kIpv6Options[] = {
    {0x04, 3},   // tunnel encapsulation limit, RFC 2473 4.1.1
    {0x05, 4},   // router alert, RFC 2711 2.1
    {0xc2, 6},   // jumbogram, RFC 2675 2
    {0xc9, 18},  // home address, RFC 6275 6.3
};

inline constexpr KeptLength kTcpOptions[] = {
    {2, 4},          // maximum segment size, RFC 9293 3.2
    {3, 3},          // window scale, RFC 7323 2.2
    {4, 2},          // selective acknowledgment permitted, RFC 2018 2
    {5, 10, 8, 34},  // its blocks, RFC 2018 3
    {8, 10},         // timestamps, RFC 7323 3.2
};

// By subtype, RFC 8684 3; ADD_ADDR with or without a port and a check value.
inline constexpr std::uint8_t kMptcpAddAddress = 3;
inline constexpr KeptLength kMptcpOptions[] = {
    {0, 4, 8, 20}, {0, 22, 2, 24}, {1, 12, 4, 16}, {1, 24},  // MP_CAPABLE, MP_JOIN
    {2, 4, 4, 12}, {2, 14, 2, 28},                           // DSS
    {3, 8, 2, 10}, {3, 16, 2, 18}, {3, 20, 2, 22}, {3, 28, 2, 30},
    {4, 4, 1, 40}, {5, 3, 1, 4},   {6, 12},        {7, 12},  // REMOVE_ADDR, MP_PRIO, MP_FAIL, MP_FASTCLOSE
    {8, 4},                                                  // MP_TCPRST
};

// What is kept of a chunk is no longer than its first length here; of SACK all (sack_length).
inline constexpr KeptLength kSctpChunks[] = {
    {1, 20, 1, 0xffff},     // INIT, RFC 9260 3.3.2
    {2, 20, 1, 0xffff},     // INIT ACK, RFC 9260 3.3.3
    {3, 16, 4, 0xfffc},     // SACK, RFC 9260 3.3.4
    {7, 8},                 // SHUTDOWN, RFC 9260 3.3.8
    {12, 8},                // ECNE, RFC 9260 appendix A
    {13, 8},                // CWR, RFC 9260 appendix A
    {0x80, 8, 1, 0xffff},   // ASCONF-ACK, RFC 5061 4.1.2
    {0xc0, 8, 4, 0xfffc},   // FORWARD TSN, RFC 3758 3.2
    {0xc1, 16, 1, 0xffff},  // ASCONF, RFC 5061 4.1.1
};

// Length of a SACK chunk by its numbers of gap blocks and duplicate TSNs, RFC 9260 3.3.4.
constexpr std::size_t sack_length(std::size_t gap_blocks, std::size_t duplicates) {
    return 16 + 4 * (gap_blocks + duplicates);
}

inline constexpr KeptLength kSctpParameters[] = {
    {5, 8},                // IPv4 address, RFC 9260 3.3.2.1.1
    {6, 20},               // IPv6 address, RFC 9260 3.3.2.1.2
    {12, 6, 2, 10},        // supported address types, of which three are defined, RFC 9260 3.3.2.1.5
    {0xc001, 16, 12, 28},  // add an address, RFC 5061 4.2.1
    {0xc002, 16, 12, 28},  // delete an address, RFC 5061 4.2.2
    {0xc004, 16, 12, 28},  // set primary address, RFC 5061 4.2.4
};

inline constexpr KeptLength kNeighbourOptions[] = {
    {1, 8},              // source link-layer address, RFC 4861 4.6.1
    {2, 8},              // target link-layer address, RFC 4861 4.6.1
    {3, 32},             // prefix information, RFC 4861 4.6.2
    {5, 8},              // MTU, RFC 4861 4.6.4
    {24, 8, 8, 24},      // route information, RFC 4191 2.3
    {25, 24, 16, 2040},  // recursive DNS servers, RFC 8106 5.1
};

}  // namespace acapella::anonymise
