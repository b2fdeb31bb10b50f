// What one direction of a TCP connection has shown so far.
#pragma once

#include <array>
#include <cstdint>

#include "flow/seen_ranges.hpp"
#include "flow/slots.hpp"

namespace acapella {

// RFC 9293 section 3.1.
enum TcpFlag : std::uint16_t {
    kFin = 0x001,
    kSyn = 0x002,
    kRst = 0x004,
    kPsh = 0x008,
    kAck = 0x010,
    kUrg = 0x020,
    kEce = 0x040,
    kCwr = 0x080,
};

enum class FlagCount : std::uint8_t { kSyn, kSynAck, kFin, kRst, kPsh, kAck, kUrg, kEce, kCwr };
inline constexpr std::size_t kFlagCounts = 9;

struct TcpState {
    // Counts modulo 2^16 and 2^32; Accountant keeps the carries of the few flows that have any.
    std::array<std::uint16_t, kFlagCounts> flags{};
    std::uint32_t duplicate_acks = 0;
    std::uint64_t retransmitted_bytes = 0;
    // Sequence positions, unwrapped; `next` is one above the highest sent, SYN and FIN included.
    std::uint64_t next = 0;
    Range newest{0, 0};
    std::int64_t syn_ns = 0;
    std::int64_t round_trip_ns = 0;
    std::uint32_t syn_seq = 0;
    std::uint32_t syn_ack_seq = 0;
    std::uint32_t syn_ack_ack = 0;
    std::uint32_t highest_ack = 0;
    std::uint32_t older = kNone;  // OlderRanges of a flow with gaps
    std::uint32_t peer = kNone;   // whom duplicate_acks and the round trip were measured against
    std::uint16_t last_window = 0;
    bool has_next = false;
    bool has_ack = false;
    bool has_round_trip = false;

    std::uint32_t count(FlagCount flag) const { return flags[static_cast<std::size_t>(flag)]; }
};

}  // namespace acapella
