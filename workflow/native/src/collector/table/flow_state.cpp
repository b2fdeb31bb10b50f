#include "collector/table/flow_state.hpp"

#include <algorithm>

namespace acapella::collector {
namespace {

constexpr std::uint64_t kStampModulus = std::uint64_t{1} << 48;
constexpr std::uint64_t kByteModulus = std::uint64_t{1} << 32;
constexpr std::uint64_t kPacketModulus = std::uint64_t{1} << 16;
constexpr std::uint64_t kShortestPacket = 20;  // an IPv4 header

std::uint64_t stamp_step(const FlowState& flow, const Report& report) {
    return (report.timestamp - flow.timestamp) % kStampModulus;
}

// The cells of both sketches are cleared together but wrap separately. If one count decreases and the other
// gives a plausible range for it, the first one has wrapped; otherwise both were reset (section III-A1 of the
// paper).
void count_published(FlowState& flow, const Report& report) {
    const bool bytes_fell = report.bytes < flow.epoch_bytes % kByteModulus;
    const bool packets_fell = report.packets < flow.epoch_packets % kPacketModulus;
    const std::uint64_t more_bytes = (report.bytes - flow.epoch_bytes) % kByteModulus;
    const std::uint64_t more_packets = (report.packets - flow.epoch_packets) % kPacketModulus;
    const bool plausible =
        more_bytes >= more_packets * kShortestPacket && more_bytes <= more_packets * 0xffff;
    const bool wrapped = bytes_fell != packets_fell && plausible && more_bytes < kByteModulus / 2 &&
                         more_packets < kPacketModulus / 2;
    if ((bytes_fell || packets_fell) && !wrapped) {
        flow.closed_bytes += flow.epoch_bytes;
        flow.closed_packets += flow.epoch_packets;
        flow.epoch_bytes = report.bytes;
        flow.epoch_packets = report.packets;
        ++flow.epochs;
        return;
    }
    flow.epoch_bytes += more_bytes;
    flow.epoch_packets += more_packets;
}

void take_larger(RelaxedAtomic<std::uint64_t>& bytes, RelaxedAtomic<std::uint64_t>& packets,
                 const Report& report) {
    bytes = std::max(bytes.get(), report.bytes);
    packets = std::max(packets.get(), report.packets);
}

void close_previous(FlowState& flow) {
    flow.closed_bytes += flow.previous_bytes;
    flow.closed_packets += flow.previous_packets;
}

// Returns false for a report of a closed epoch.
bool count_tagged(FlowState& flow, const Report& report) {
    if (report.epoch == flow.epoch) {
        take_larger(flow.epoch_bytes, flow.epoch_packets, report);
        return true;
    }
    if (report.epoch > flow.epoch) {
        close_previous(flow);
        flow.previous_bytes = flow.epoch_bytes;
        flow.previous_packets = flow.epoch_packets;
        flow.previous_epoch = flow.epoch;
        flow.epoch = report.epoch;
        flow.epoch_bytes = report.bytes;
        flow.epoch_packets = report.packets;
    } else if (!flow.has(FlowState::kPrevious) || report.epoch > flow.previous_epoch) {
        close_previous(flow);
        flow.previous_bytes = report.bytes;
        flow.previous_packets = report.packets;
        flow.previous_epoch = report.epoch;
    } else if (report.epoch == flow.previous_epoch) {
        take_larger(flow.previous_bytes, flow.previous_packets, report);
        return true;
    } else {
        return false;
    }
    flow.flags |= FlowState::kPrevious;
    ++flow.epochs;
    return true;
}

void update_ends(FlowState& flow, const Report& report) {
    if ((report.has & Report::kStart) != 0) {
        const bool first = !flow.has(FlowState::kStart);
        flow.start_ns = first ? report.start : std::min(flow.start_ns.get(), report.start);
        flow.flags |= FlowState::kStart;
    }
    if ((report.has & Report::kEnd) != 0) {
        flow.end_ns = std::max(flow.end_ns.get(), report.timestamp);
        flow.flags |= FlowState::kEnd;
    }
    if ((report.has & Report::kTags) == 0) flow.flags |= FlowState::kTagsCut;
}

void update_times(FlowState& flow, const Report& report) {
    if ((report.has & Report::kRttSyn) != 0) {
        flow.rtt_syn_ns = report.rtt_syn;
        flow.flags |= FlowState::kRttSyn;
    }
    if ((report.has & Report::kRttAck) != 0) {
        flow.rtt_ack_ns = report.rtt_ack;
        flow.flags |= FlowState::kRttAck;
    }
    // Unlike the handshake time, the inter-arrival time varies, so a value from an older report is not kept.
    flow.flags = flow.flags & ~std::uint32_t{FlowState::kIat};
    if ((report.has & Report::kIat) != 0) {
        flow.iat_ns = report.iat;
        flow.flags |= FlowState::kIat;
    }
}

// Sequence numbers are modulo 2^32: a difference of less than half of that is forward (RFC 9293 section 3.4).
void update_numbers(FlowState& flow, const Report& report) {
    if ((report.has & Report::kSeq) != 0) {
        flow.seq = report.seq_end;
        flow.flags |= FlowState::kSeq;
    }
    if ((report.has & Report::kAck) != 0) {
        if (!flow.has(FlowState::kAckBase)) flow.ack = report.first_ack;
        const auto step = static_cast<std::int32_t>(report.ack - flow.ack);
        if (step > 0) {
            flow.acked_bytes += static_cast<std::uint32_t>(step);
            flow.ack = report.ack;
        }
        flow.flags |= FlowState::kAck | FlowState::kAckBase;
    } else if ((report.has & Report::kSynSeq) != 0) {  // also for reused ports: numbers restart
        flow.ack = report.seq_end;
        // The next first_ack becomes the base; it does not include the SYN's data.
        flow.flags = flow.flags & ~std::uint32_t{FlowState::kAckBase};
    }
}

// A TCP flow without a slot is not tracked: only packets seen with a slot are included in its loss counts,
// and reports without a slot have no acknowledgment or sequence number. A slot allocated at a SYN starts with
// the connection.
void update_without_slot(FlowState& flow, const Report& report) {
    const bool opens = (report.has & Report::kSyn) != 0;
    const bool lost = (report.has & Report::kNoSlot) != 0;
    const bool reallocated = (report.has & Report::kSlot) != 0 && flow.has(FlowState::kSlot) &&
                             report.start != flow.slot_start && !opens;
    if (!lost && !reallocated) return;
    flow.flags |= FlowState::kUnfollowed;
    if (lost) flow.flags = flow.flags & ~std::uint32_t{FlowState::kSeq | FlowState::kAck};
    // Acknowledgments before the first one of the slot are unknown; after a SYN they belong to another
    // connection.
    if (flow.has(FlowState::kAckBase) && !opens) return;
    flow.flags = (flow.flags & ~std::uint32_t{FlowState::kAckBase}) | FlowState::kAckPartial;
}

void add_step(RelaxedAtomic<std::uint64_t>& total, RelaxedAtomic<std::uint64_t>& last, std::uint64_t value,
              bool restarted) {
    total += restarted ? value : value - last;
    last = value;
}

// The P4 program counts from the allocation of the slot, which may happen more than once. Filling a gap
// reduces the count, so a smaller count does not indicate a new slot.
void update_slot(FlowState& flow, const Report& report) {
    if ((report.has & Report::kSlot) == 0) return;
    const bool restarted = report.start != flow.slot_start;
    flow.slot_start = report.start;
    add_step(flow.payload_bytes, flow.payload_last, report.payload_bytes, restarted);
    add_step(flow.retransmitted_bytes, flow.retransmitted_last, report.retransmitted_bytes, restarted);
    add_step(flow.gap_bytes, flow.gap_last, report.gap_bytes, restarted);
    if ((report.has & Report::kUncertain) != 0) {
        add_step(flow.uncertain_bytes, flow.uncertain_last, report.uncertain_bytes, restarted);
        flow.flags |= FlowState::kUncertain;
    }
    flow.duplicate_acks += report.duplicate_acks - (restarted ? 0 : flow.duplicate_acks_last.get());
    flow.duplicate_acks_last = report.duplicate_acks;
    flow.flags |= FlowState::kSlot;
}

// For the tagged format only. Without the time of the last packet, a report may include packets later than
// its time.
void update_last(FlowState& flow, const Report& report, bool newest) {
    if ((report.has & Report::kLast) != 0) {
        flow.end_ns = std::max(flow.end_ns.get(), report.last);
        if (newest) flow.flags |= FlowState::kLast;
    } else if (newest) {
        flow.flags = flow.flags & ~std::uint32_t{FlowState::kLast};
    }
}

void update_newest(FlowState& flow, const Report& report) {
    flow.sequence = report.sequence;
    update_ends(flow, report);
    update_times(flow, report);
    update_without_slot(flow, report);
    update_numbers(flow, report);
    update_slot(flow, report);
}

bool is_repeated(const FlowState& flow, const Report& report) {
    return report.epoch == flow.epoch && report.timestamp == flow.timestamp &&
           report.sequence == flow.sequence;
}

Effect update_published(FlowState& flow, Report& report) {
    if (!is_newer(flow, Format::published, report)) {
        ++flow.older_reports;
        return Effect::older;
    }
    const std::uint64_t time = time_of(flow, Format::published, report);
    count_published(flow, report);
    report.timestamp = time;
    report.start = time;
    update_newest(flow, report);
    flow.timestamp = time;
    return Effect::newer;
}

Effect update_tagged(FlowState& flow, const Report& report) {
    if (is_newer(flow, Format::tagged, report)) {
        count_tagged(flow, report);
        update_newest(flow, report);
        update_last(flow, report, true);
        flow.timestamp = report.timestamp;
        return Effect::newer;
    }
    if (is_repeated(flow, report)) return Effect::repeated;
    ++flow.older_reports;
    flow.first_ns = std::min(flow.first_ns.get(), report.timestamp);
    if (!count_tagged(flow, report)) return Effect::late;
    update_ends(flow, report);
    if ((report.has & Report::kNoSlot) != 0) flow.flags |= FlowState::kUnfollowed;
    update_last(flow, report, false);
    return Effect::older;
}

}  // namespace

void begin(FlowState& flow, Report& report) {
    flow.timestamp = report.timestamp;
    flow.first_ns = report.timestamp;
    flow.epoch = report.epoch;
    flow.epoch_bytes = report.bytes;
    flow.epoch_packets = report.packets;
    flow.epochs = 1;
    flow.reports = 1;
    update_newest(flow, report);
    if ((report.has & Report::kLast) != 0) update_last(flow, report, true);
}

bool is_newer(const FlowState& flow, Format format, const Report& report) {
    if (format == Format::published) return stamp_step(flow, report) < kStampModulus / 2;
    if (report.epoch != flow.epoch) return report.epoch > flow.epoch;
    if (report.timestamp != flow.timestamp) return report.timestamp > flow.timestamp;
    return static_cast<std::int32_t>(report.sequence - flow.sequence) > 0;
}

std::uint64_t time_of(const FlowState& flow, Format format, const Report& report) {
    return format == Format::published ? flow.timestamp + stamp_step(flow, report) : report.timestamp;
}

Effect update(FlowState& flow, Format format, Report& report) {
    ++flow.reports;
    return format == Format::published ? update_published(flow, report) : update_tagged(flow, report);
}

}  // namespace acapella::collector
