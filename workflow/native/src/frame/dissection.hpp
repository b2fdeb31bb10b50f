// The result of dissecting one frame. Plain data, reset and reused for every frame.
#pragma once

#include <array>
#include <cstdint>

#include "frame/record.hpp"

namespace acapella {

inline constexpr std::size_t kMaxTokens = 64;
inline constexpr std::size_t kMaxVlans = 8;
inline constexpr std::size_t kMaxLabels = 16;
inline constexpr std::size_t kMaxTunnels = 16;

// A token of frame.protocols. schemas/protocols.tsv lists the enumerators and their text.
enum class Token : std::uint8_t;
// A problem of the frame. issue.hpp defines the values and their text.
enum class Issue : std::uint8_t;

// The type of a tunnel identifier. schemas/tunnels.tsv lists the enumerators, tunnels.hpp defines their text.
enum class TunnelType : std::uint8_t;

// The identifier of a tunnel, and the position (from 1) of its header among the headers for which
// has_position() is true.
struct Tunnel {
    std::uint32_t id;
    std::uint16_t position;
    TunnelType type;
    std::uint8_t zero = 0;  // explicit padding, because the struct is hashed and compared as one word

    friend bool operator==(const Tunnel&, const Tunnel&) = default;
};
static_assert(sizeof(Tunnel) == 8);

// The bytes of an innermost packet, from the start of its header.
struct PacketSpan {
    Bytes bytes;                 // captured bytes within the packet's length field
    std::uint32_t reported = 0;  // number of bytes on the wire
    std::uint8_t version = 0;    // of IP; 0: none
    std::uint16_t ethertype = 0;
};

struct Dissection {
    // layers 2 to 4 and tunnels, outermost first; nothing above layer 4
    std::array<Token, kMaxTokens> tokens;
    // Number of consecutive headers of each token. tshark prints `mpls` once for a whole label stack; `stack`
    // repeats the label.
    std::array<std::uint8_t, kMaxTokens> repeats;
    std::uint8_t token_count = 0;
    // False if tshark may decode layers 2 to 4 differently. The frame is then sent to tshark.
    bool sure = true;
    // True if the core does not decode the rest of the frame (an application, or an unknown ethertype or IP
    // protocol), so that only tshark can identify it. False if the native tokens are the whole stack.
    bool payload_undecoded = false;
    Issue issue{};

    std::uint8_t vlan_count = 0;
    std::uint8_t label_count = 0;
    std::array<std::uint16_t, kMaxVlans> vlans;    // outermost first
    std::array<std::uint32_t, kMaxLabels> labels;  // outermost first
    std::uint8_t tunnel_count = 0;
    std::array<Tunnel, kMaxTunnels> tunnels;  // outermost first

    std::uint32_t inner_wire_len = 0;  // defined in schemas/tables/frames.yaml

    // Innermost network header; ip_version is 0 if there is none.
    std::uint8_t ip_version = 0;
    std::uint8_t ip_proto = 0;
    bool later_fragment = false;
    std::array<std::byte, 16> src;  // IPv4: the first 4 bytes
    std::array<std::byte, 16> dst;
    bool has_ip_id = false;    // IPv4
    std::uint16_t ip_id = 0;   // identification field, RFC 791
    std::uint32_t ip_len = 0;  // header and payload, from the length field (if it is 0, from the frame)

    PacketSpan network;  // the innermost IP packet, header included, even if truncated
    // The payload of the innermost ethertype or MPLS label stack; data() is null if there is none. An 802.3
    // length field is stored as the ethertype, and the payload is not limited to it.
    PacketSpan link_payload;

    // Innermost transport header.
    bool has_ports = false;
    bool has_payload_len = false;
    bool has_tcp = false;
    std::uint16_t src_port = 0;
    std::uint16_t dst_port = 0;
    std::uint16_t tcp_flags = 0;
    std::uint16_t tcp_window = 0;
    std::uint32_t tcp_seq = 0;
    std::uint32_t tcp_ack = 0;
    std::uint32_t payload_len = 0;  // on the wire
    Bytes payload;                  // the captured bytes after the last native header

    // The Ethernet frame in the innermost pseudowire with a control word; empty if there is none. tshark may
    // decode the control word as part of an address, so this inner frame is sent to tshark instead.
    Bytes pseudowire_frame;
    std::uint32_t pseudowire_frame_len = 0;
    std::uint8_t pseudowire_tokens = 0;  // number of tokens before this frame

    void reset();
};

}  // namespace acapella
