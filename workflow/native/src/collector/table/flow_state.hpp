// What the collector knows of one flow, and how a report changes it.
#pragma once

#include <cstdint>

#include "collector/report/report.hpp"
#include "collector/table/relaxed_atomic.hpp"

namespace acapella::collector {

// Counts of an epoch are kept for the newest epoch and the one before it, so that their reports may come in
// any order; those of earlier ones are closed.
struct FlowState {
    enum Flag : std::uint32_t {
        kStart = 1,
        kEnd = 2,
        kRttSyn = 4,
        kRttAck = 8,
        kIat = 16,
        kSeq = 32,
        kAck = 64,
        kAckBase = 128,  // ack holds where acknowledged bytes count from
        kSlot = 256,
        kPrevious = 512,      // there is an epoch before the newest one
        kTagsCut = 1024,      // there were more tags than a report holds
        kLast = 2048,         // the newest report said when the last packet was
        kUncertain = 4096,    // uncertain_bytes was reported
        kUnfollowed = 8192,   // TCP: some packets came while the data plane had no slot for the flow
        kAckPartial = 16384,  // acknowledgments before those of a report may be missing
    };

    bool has(Flag flag) const { return (flags & flag) != 0; }
    std::uint64_t bytes() const { return closed_bytes + previous_bytes + epoch_bytes; }
    std::uint64_t packets() const { return closed_packets + previous_packets + epoch_packets; }
    // What the bytes were sent between, as far as it is known.
    std::uint64_t from_ns() const { return has(kStart) ? start_ns : first_ns; }
    std::uint64_t until_ns() const { return has(kLast) ? end_ns : timestamp; }
    // Sent, as far as seen, and not acknowledged, modulo 2^32; nothing where an acknowledgment is ahead.
    bool knows_acked() const { return has(kAck) && !has(kAckPartial); }
    bool knows_flight() const { return has(kSeq) && has(kAck) && static_cast<std::int32_t>(seq - ack) >= 0; }

    // In the order of use, so that a report touches few lines of the cache (RecordPool): first what reports
    // of both formats change, then what only format 2 has, then what few reports change.
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
    RelaxedAtomic<std::uint64_t> slot_start;  // of the newest report: another one is a slot that counts anew
    RelaxedAtomic<std::uint64_t> payload_last;  // as the newest report has it
    RelaxedAtomic<std::uint64_t> retransmitted_bytes;
    RelaxedAtomic<std::uint64_t> retransmitted_last;
    RelaxedAtomic<std::uint64_t> gap_bytes;
    RelaxedAtomic<std::uint64_t> gap_last;
    RelaxedAtomic<std::uint64_t> uncertain_bytes;
    RelaxedAtomic<std::uint64_t> uncertain_last;
    RelaxedAtomic<std::uint32_t> duplicate_acks;
    RelaxedAtomic<std::uint32_t> duplicate_acks_last;
    // Seldom changed: fields that most reports change stand before this one.
    RelaxedAtomic<std::uint64_t> closed_bytes;
    RelaxedAtomic<std::uint64_t> closed_packets;
    RelaxedAtomic<std::uint32_t> number;    // the flow's row
    RelaxedAtomic<std::uint32_t> epochs;    // published format: times that the counts began
    RelaxedAtomic<std::uint64_t> first_ns;  // of the first report
    RelaxedAtomic<std::uint64_t> previous_bytes;
    RelaxedAtomic<std::uint64_t> previous_packets;
    RelaxedAtomic<std::uint32_t> previous_epoch;
    RelaxedAtomic<std::uint32_t> older_reports;  // of `reports`: came after a newer one
};

enum class Effect : std::uint8_t {
    newer,     // all of it was taken; a flow's first one too
    older,     // only its counts, as those of an epoch are the largest that were reported
    repeated,  // it has the stamp of the newest one
    late,      // of an epoch that was closed: it could not be taken
    refused,   // of a new flow, and the table is full
};

// The first report of a flow.
void begin(FlowState& flow, Report& report);
// A further one. The newer of two reports is the one with the larger (epoch, time, sequence); in the
// published format the one with the later time modulo 2^48, of equal ones the one that came later.
bool is_newer(const FlowState& flow, Format format, const Report& report);
Effect update(FlowState& flow, Format format,
              Report& report);  // the published format's stamp goes on past 2^48
// The time of a newer report: beyond 2^48 ns where the published format's stamp has wrapped.
std::uint64_t time_of(const FlowState& flow, Format format, const Report& report);

}  // namespace acapella::collector
