// The fields of one frame that the flow table and the columns use: one cache line of plain data, so that rows
// can be queued until tshark has identified the application.
#pragma once

#include <cstdint>
#include <type_traits>

#include "containers/hash_index.hpp"
#include "frame/dissection.hpp"
#include "frame/issue.hpp"
#include "frame/record.hpp"

namespace acapella {

struct FrameRow {
    enum Bits : std::uint8_t {
        kHasTcp = 1,
        kHasPayloadLen = 2,
        kSure = 4,
        kPayloadUndecoded = 8,
        kSent = 16,         // passed to tshark
        kUntimed = 32,      // no timestamp, or an implausible one
        kImplausible = 64,  // the timestamp is outside the years 1970 to 2106
        kHasIpId = 128,
    };

    std::uint64_t frame : 48;
    std::uint64_t ip_id : 16;
    std::int64_t ts_ns;
    std::uint32_t wire_len;
    std::uint32_t cap_len;
    std::uint32_t inner_wire_len;
    std::uint32_t stack;  // row of HeaderStacks: the native tokens
    std::uint32_t key;    // row of FlowKeys, or kNone
    std::uint32_t ip_len;
    std::uint32_t tcp_seq;
    std::uint32_t tcp_ack;
    std::uint32_t payload_len;
    std::uint16_t tcp_flags;
    std::uint16_t tcp_window;
    std::uint32_t kind;  // engine hybrid: payload kind (row of hybrid::Selection), or kNone
    std::uint8_t bits;
    Issue issue;
    std::uint8_t pseudowire_tokens;  // as in Dissection
    std::uint8_t zero;

    bool has(Bits bit) const { return (bits & bit) != 0; }
};
static_assert(sizeof(FrameRow) == 64 && std::is_trivially_copyable_v<FrameRow>);

inline Issue time_issue(const FrameRow& row) {
    if (row.has(FrameRow::kImplausible)) return Issue::implausible_timestamp;
    return row.has(FrameRow::kUntimed) ? Issue::no_timestamp : Issue::none;
}

inline FrameRow frame_row(const Record& record, const Dissection& d, std::uint32_t stack, std::uint32_t key) {
    const bool implausible = record.timed && !plausible(record.ts_ns);
    FrameRow row;
    row.frame = record.frame;
    row.ts_ns = record.ts_ns;
    row.wire_len = record.wire_len;
    row.cap_len = static_cast<std::uint32_t>(record.bytes.size());
    row.inner_wire_len = d.inner_wire_len;
    row.stack = stack;
    row.key = key;
    row.ip_id = d.ip_id;
    row.ip_len = d.ip_len;
    row.tcp_seq = d.tcp_seq;
    row.tcp_ack = d.tcp_ack;
    row.payload_len = d.payload_len;
    row.tcp_flags = d.tcp_flags;
    row.tcp_window = d.tcp_window;
    row.kind = kNone;
    row.bits = static_cast<std::uint8_t>(
        (d.has_tcp ? FrameRow::kHasTcp : 0) | (d.has_payload_len ? FrameRow::kHasPayloadLen : 0) |
        (d.has_ip_id ? FrameRow::kHasIpId : 0) | (d.sure ? FrameRow::kSure : 0) |
        (d.payload_undecoded ? FrameRow::kPayloadUndecoded : 0) |
        (record.timed && !implausible ? 0 : FrameRow::kUntimed) | (implausible ? FrameRow::kImplausible : 0));
    row.issue = d.issue == Issue::none ? time_issue(row) : d.issue;
    row.pseudowire_tokens = d.pseudowire_tokens;
    row.zero = 0;
    return row;
}

}  // namespace acapella
