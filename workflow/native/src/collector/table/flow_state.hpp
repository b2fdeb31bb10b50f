// The state of one flow, and functions that update it from a report.
#pragma once

#include <cstdint>

#include "collector/report/report.hpp"
#include "collector/table/relaxed_atomic.hpp"

namespace acapella::collector {

// Counts are kept separately for the newest epoch and the one before it, so that their reports may arrive in
// any order. Earlier epochs are closed.
struct FlowState {
    enum Flag : std::uint32_t {
        kStart = 1,
        kEnd = 2,
        kRttSyn = 4,
        kRttAck = 8,
        kIat = 16,
        kSeq = 32,
        kAck = 64,
        kAckBase = 128,  // `ack` is the base of acknowledged bytes
        kSlot = 256,
        kPrevious = 512,      // there is an epoch before the newest one
        kTagsCut = 1024,      // a packet had more tags than fit in a report
        kLast = 2048,         // the newest report has the time of the last packet
        kUncertain = 4096,    // uncertain_bytes was reported
        kUnfollowed = 8192,   // TCP: the data plane had no slot for the flow during some packets
        kAckPartial = 16384,  // earlier acknowledgments may be missing
    };

    bool has(Flag flag) const { return (flags & flag) != 0; }
    std::uint64_t bytes() const { return closed_bytes + previous_bytes + epoch_bytes; }
    std::uint64_t packets() const { return closed_packets + previous_packets + epoch_packets; }
    // Start and end of the known time interval in which the bytes were sent.
    std::uint64_t from_ns() const { return has(kStart) ? start_ns : first_ns; }
    std::uint64_t until_ns() const { return has(kLast) ? end_ns : timestamp; }
    bool knows_acked() const { return has(kAck) && !has(kAckPartial); }
    // Returns true if the bytes in flight (sent and not acknowledged, modulo 2^32) are known; false if an
    // acknowledgment is ahead.
    bool knows_flight() const { return has(kSeq) && has(kAck) && static_cast<std::int32_t>(seq - ack) >= 0; }

    // Fields are in the order of use, so that a report touches few cache lines (see RecordPool): first the
    // fields changed by reports of both formats, then the fields of format 2, and last the fields that few
    // reports change.
    RelaxedAtomic<std::uint64_t> timestamp;  // of the newest report
    RelaxedAtomic<std::uint64_t> epoch_bytes;
    RelaxedAtomic<std::uint64_t> epoch_packets;
    RelaxedAtomic<std::uint32_t> reports;
    RelaxedAtomic<std::uint32_t> flags;
    RelaxedAtomic<std::uint32_t> seq;
    RelaxedAtomic<std::uint32_t> ack;
    RelaxedAtomic<std::uint64_t> acked_bytes;
    RelaxedAtomic<std::uint64_t> rtt_syn_ns;
    RelaxedAtomic<std::uint64_t> iat_ns;
    RelaxedAtomic<std::uint32_t> sequence;
    RelaxedAtomic<std::uint32_t> epoch;
    RelaxedAtomic<std::uint64_t> start_ns;
    RelaxedAtomic<std::uint64_t> end_ns;
    RelaxedAtomic<std::uint64_t> rtt_ack_ns;
    RelaxedAtomic<std::uint64_t> payload_bytes;
    // of the newest report; if it changes, the slot's counters were reset
    RelaxedAtomic<std::uint64_t> slot_start;
    RelaxedAtomic<std::uint64_t> payload_last;  // value in the newest report
    RelaxedAtomic<std::uint64_t> retransmitted_bytes;
    RelaxedAtomic<std::uint64_t> retransmitted_last;
    RelaxedAtomic<std::uint64_t> gap_bytes;
    RelaxedAtomic<std::uint64_t> gap_last;
    RelaxedAtomic<std::uint64_t> uncertain_bytes;
    RelaxedAtomic<std::uint64_t> uncertain_last;
    RelaxedAtomic<std::uint32_t> duplicate_acks;
    RelaxedAtomic<std::uint32_t> duplicate_acks_last;
    // The fields from here on rarely change.
    RelaxedAtomic<std::uint64_t> closed_bytes;
    RelaxedAtomic<std::uint64_t> closed_packets;
    RelaxedAtomic<std::uint32_t> number;    // the flow's row number
    RelaxedAtomic<std::uint32_t> epochs;    // published format: 1 + number of times the counts were reset
    RelaxedAtomic<std::uint64_t> first_ns;  // of the earliest report
    RelaxedAtomic<std::uint64_t> previous_bytes;
    RelaxedAtomic<std::uint64_t> previous_packets;
    RelaxedAtomic<std::uint32_t> previous_epoch;
    RelaxedAtomic<std::uint32_t> older_reports;  // of `reports`: received after a newer one
};

enum class Effect : std::uint8_t {
    newer,     // all fields were used; also the first report of a flow
    older,     // only its times and counts (the largest of each epoch) were used; published format: nothing
    repeated,  // same time and sequence number as the newest report
    late,      // of a closed epoch: only its time was used (first_ns)
    refused,   // of a new flow: not added, because the table is full
};

// Adds the first report of a flow.
void begin(FlowState& flow, Report& report);
// Returns true if a report is newer than the newest report of the flow, that is, if its (epoch, time,
// sequence) is larger. In the published format, if its time modulo 2^48 is later or equal.
bool is_newer(const FlowState& flow, Format format, const Report& report);

// Adds another report. In the published format, also unwraps the 48-bit time in `report`.
Effect update(FlowState& flow, Format format, Report& report);
// Returns the time of a newer report, unwrapped beyond 2^48 ns in the published format.
std::uint64_t time_of(const FlowState& flow, Format format, const Report& report);

}  // namespace acapella::collector
