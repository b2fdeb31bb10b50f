// Parses one RoCEv2 frame: RDMA WRITE ONLY of an unreliable connection (opcode 0x2a), in UDP over IPv4 over
// Ethernet, with optional VLAN tags. IBTA specification 1.4, chapter 9 and annex A17.
#pragma once

#include <array>
#include <cstdint>

#include "frame/record.hpp"

namespace acapella::collector {

// The result of checking a frame. The counters of these results have the same names; bad_version also counts
// slots in memory that contain no report.
#define ACAPELLA_VERDICTS(X)                                                                             \
    X(accepted)      /* the report is added to the flow table */                                         \
    X(not_roce)      /* not UDP over IPv4 to port 4791, or an IP fragment */                             \
    X(truncated)     /* truncated by the capture */                                                      \
    X(bad_length)    /* lengths contradict each other, or differ from that of a report */                \
    X(bad_icrc)      /* the invariant CRC is wrong */                                                    \
    X(bad_opcode)    /* not RDMA WRITE ONLY of an unreliable connection, or another transport version */ \
    X(bad_qp)        /* the queue pair does not exist (any more) */                                      \
    X(bad_key)       /* the key is not that of the memory region */                                      \
    X(out_of_bounds) /* the address is not that of a slot of the ring */                                 \
    X(bad_version)   /* the content is not a report of the format */                                     \
    X(psn_duplicate) /* the packet sequence number was received before, or is older than the window */   \
    X(psn_reordered) /* received after a later one; was counted in psn_gap_lost before */

enum class Verdict : std::uint8_t {
#define ACAPELLA_VERDICT(name) name,
    ACAPELLA_VERDICTS(ACAPELLA_VERDICT)
#undef ACAPELLA_VERDICT
};

inline constexpr std::array kEveryVerdict = {
#define ACAPELLA_VERDICT(name) Verdict::name,
    ACAPELLA_VERDICTS(ACAPELLA_VERDICT)
#undef ACAPELLA_VERDICT
};
constexpr std::size_t kVerdicts = kEveryVerdict.size();

const char* name_of(Verdict verdict);

inline constexpr std::uint16_t kRocePort = 4791;

struct WriteRequest {
    std::uint32_t queue_pair = 0;
    std::uint32_t psn = 0;
    std::uint64_t address = 0;
    std::uint32_t key = 0;
    std::uint32_t length = 0;  // from the RETH
    Bytes payload;
};

// Returns `accepted` and fills `request` if the frame is an RDMA WRITE ONLY request with consistent lengths.
// `wire_len` is the frame's length before truncation by a capture.
Verdict parse(Bytes frame, std::uint32_t wire_len, bool check_icrc, WriteRequest& request);

// Computes the ICRC of a packet, from its IPv4 header up to the ICRC field. The result is big-endian.
std::uint32_t icrc_of(Bytes packet);

}  // namespace acapella::collector
