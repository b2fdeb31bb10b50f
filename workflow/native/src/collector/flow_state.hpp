// What the collector knows of one flow, and how a report changes it.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "collector/report.hpp"

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
        kPrevious = 512,  // there is an epoch before the newest one
        kTagsCut = 1024,  // there were more tags than a report holds
    };
    using Words = std::array<std::uint64_t, 26>;

    bool has(Flag flag) const { return (flags & flag) != 0; }
    std::uint64_t bytes() const { return closed_bytes + previous_bytes + epoch_bytes; }
    std::uint64_t packets() const { return closed_packets + previous_packets + epoch_packets; }
    // Sent, as far as seen, and not acknowledged, modulo 2^32; nothing where an acknowledgment is ahead.
    bool knows_flight() const { return has(kSeq) && has(kAck) && static_cast<std::int32_t>(seq - ack) >= 0; }

    std::uint64_t timestamp = 0;  // of the newest report
    std::uint32_t sequence = 0;
    std::uint32_t epoch = 0;
    std::uint64_t epoch_bytes = 0;
    std::uint64_t epoch_packets = 0;
    std::uint64_t closed_bytes = 0;
    std::uint64_t closed_packets = 0;
    std::uint32_t reports = 0;
    std::uint32_t flags = 0;
    std::uint32_t previous_epoch = 0;
    std::uint32_t epochs = 0;  // published format: times that the counts began anew, and one
    std::uint64_t previous_bytes = 0;
    std::uint64_t previous_packets = 0;
    std::uint64_t start_ns = 0;
    std::uint64_t end_ns = 0;
    std::uint64_t first_ns = 0;  // of the first report
    std::uint32_t seq = 0;
    std::uint32_t ack = 0;
    std::uint64_t acked_bytes = 0;
    std::uint64_t rtt_syn_ns = 0;
    std::uint64_t rtt_ack_ns = 0;
    std::uint64_t iat_ns = 0;
    std::uint64_t payload_bytes = 0;
    std::uint64_t payload_last = 0;  // as the newest report has it: the program's slot may start anew
    std::uint64_t retransmitted_bytes = 0;
    std::uint64_t retransmitted_last = 0;
    std::uint64_t gap_bytes = 0;
    std::uint64_t gap_last = 0;
    std::uint32_t duplicate_acks = 0;
    std::uint32_t duplicate_acks_last = 0;
    std::uint32_t older_reports = 0;  // of `reports`: came after a newer one
    std::uint32_t number = 0;         // the flow's row
};
static_assert(sizeof(FlowState) == sizeof(FlowState::Words));

enum class Effect : std::uint8_t {
    newer,     // all of it was taken
    older,     // only its counts, as those of an epoch are the largest that were reported
    repeated,  // it has the stamp of the newest one
    late,      // of an epoch that was closed: it could not be taken
};

// The first report of a flow.
void begin(FlowState& flow, Format format, const Report& report);
// A further one. The newer of two reports is the one with the larger (epoch, time, sequence); in the
// published format the one with the later time modulo 2^48, of equal ones the one that came later.
bool is_newer(const FlowState& flow, Format format, const Report& report);
Effect update(FlowState& flow, Format format, const Report& report);
// The time of a newer report: beyond 2^48 ns where the published format's stamp has wrapped.
std::uint64_t time_of(const FlowState& flow, Format format, const Report& report);

}  // namespace acapella::collector
