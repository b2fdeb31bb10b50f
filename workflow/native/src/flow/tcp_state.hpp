// State of one direction of a TCP connection.
#pragma once

#include <array>
#include <cstdint>

#include "containers/hash_index.hpp"
#include "flow/seen_ranges.hpp"

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

// There is one per TCP flow, so its size matters like that of FlowState.
struct TcpState {
    // Special values of round_trip_ns: not measured, and too long for the field (FlowTable::long_round_trips_
    // contains it).
    static constexpr std::uint32_t kNoRoundTrip = 0xffffffff;
    static constexpr std::uint32_t kLongRoundTrip = 0xfffffffe;
    static constexpr std::uint32_t kNoOlder = 0x7fffffff;

    // Counts modulo 2^16 and 2^32. FlowTable stores the carries, which few flows have.
    std::array<std::uint16_t, kFlagCounts> flags{};
    std::uint16_t last_window = 0;
    std::uint32_t duplicate_acks = 0;
    // Unwrapped sequence positions. `next` is one above the highest position sent, including SYN and FIN; 0
    // before the first frame.
    std::uint64_t next = 0;
    Range newest{0, 0};
    std::int64_t syn_ns = 0;
    std::uint32_t retransmitted_bytes = 0;
    std::uint32_t round_trip_ns = kNoRoundTrip;
    std::uint32_t syn_seq = 0;
    std::uint32_t syn_ack_seq = 0;
    std::uint32_t syn_ack_ack = 0;
    std::uint32_t highest_ack = 0;
    std::uint32_t peer = kNone;  // the peer for which duplicate_acks and the round trip were measured
    std::uint32_t older : 31 = kNoOlder;  // row of OlderRanges, for a flow with gaps
    std::uint32_t has_ack : 1 = false;

    std::uint32_t count(FlagCount flag) const { return flags[static_cast<std::size_t>(flag)]; }
};
static_assert(sizeof(TcpState) == 88);

}  // namespace acapella
