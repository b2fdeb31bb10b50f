// Dissections and rows built by hand, for tests of the code that uses dissections.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "flow/flow_keys.hpp"
#include "flow/tcp_state.hpp"
#include "frame/dissection.hpp"
#include "frame/frame_row.hpp"

namespace acapella::test {

struct Ends {
    std::uint8_t src = 1;
    std::uint8_t dst = 2;
    std::uint16_t src_port = 1000;
    std::uint16_t dst_port = 80;

    Ends back() const { return {dst, src, dst_port, src_port}; }
};

// IPv4 and TCP between hosts whose addresses differ in the last byte. Unused bytes of the address arrays are
// nonzero.
inline Dissection dissection(const Ends& ends, std::initializer_list<std::uint16_t> vlans = {},
                             std::initializer_list<std::uint32_t> labels = {}) {
    Dissection d;
    d.src.fill(std::byte{0xaa});
    d.dst.fill(std::byte{0xbb});
    d.src[3] = static_cast<std::byte>(ends.src);
    d.dst[3] = static_cast<std::byte>(ends.dst);
    d.src[0] = d.src[1] = d.src[2] = d.dst[0] = d.dst[1] = d.dst[2] = std::byte{10};
    d.ip_version = 4;
    d.ip_proto = 6;
    d.has_ports = true;
    d.src_port = ends.src_port;
    d.dst_port = ends.dst_port;
    for (const std::uint16_t vlan : vlans) d.vlans[d.vlan_count++] = vlan;
    for (const std::uint32_t label : labels) d.labels[d.label_count++] = label;
    return d;
}

struct Segment {
    std::uint16_t flags = kAck;
    std::uint32_t seq = 0;
    std::uint32_t ack = 0;
    std::uint32_t payload = 0;
    std::uint16_t window = 100;
};

inline FrameRow row(std::uint32_t key, const Segment& segment, std::int64_t ts_ns = 0,
                    std::uint32_t stack = 0) {
    FrameRow row{};
    row.key = key;
    row.stack = stack;
    row.ts_ns = ts_ns;
    row.wire_len = 54 + segment.payload;
    row.tcp_flags = segment.flags;
    row.tcp_seq = segment.seq;
    row.tcp_ack = segment.ack;
    row.tcp_window = segment.window;
    row.payload_len = segment.payload;
    row.bits = FrameRow::kHasTcp | FrameRow::kHasPayloadLen | FrameRow::kSure;
    return row;
}

}  // namespace acapella::test
