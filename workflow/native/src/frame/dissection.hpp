// What the dissectors find in one frame. Plain data, reset and reused from frame to frame.
#pragma once

#include <array>
#include <cstdint>

#include "frame/record.hpp"

namespace acapella {

inline constexpr std::size_t kMaxTokens = 64;
inline constexpr std::size_t kMaxVlans = 8;
inline constexpr std::size_t kMaxLabels = 16;
inline constexpr std::size_t kMaxTunnels = 16;

// A token of frame.protocols; the enumerators and their texts come from schemas/protocols.tsv.
enum class Token : std::uint8_t;
// Why a dissection ended early; texts in issue.hpp.
enum class Issue : std::uint8_t;

// What an identifier of a tunnel is; the enumerators come from schemas/tunnels.tsv, texts in tunnels.hpp.
enum class TunnelType : std::uint8_t;

// The identifier of a tunnel, and the place (from 1) of its header among those of has_position().
struct Tunnel {
    std::uint32_t id;
    std::uint16_t position;
    TunnelType type;
    std::uint8_t zero = 0;  // no padding: hashed and compared as a word

    friend bool operator==(const Tunnel&, const Tunnel&) = default;
};
static_assert(sizeof(Tunnel) == 8);

// Where an innermost header begins, and how much from there on belongs to it.
struct PacketSpan {
    Bytes bytes;                 // what was captured, without what its length field leaves out
    std::uint32_t reported = 0;  // the same on the wire
    std::uint8_t version = 0;    // of IP, 0 where there is none
    std::uint16_t ethertype = 0;
};

struct Dissection {
    std::array<Token, kMaxTokens> tokens;  // layers 2 to 4 and tunnels, in order; nothing above layer 4
    // Headers that a token stands for: tshark writes `mpls` once for a whole label stack, `stack` repeats its
    // label.
    std::array<std::uint8_t, kMaxTokens> repeats;
    std::uint8_t token_count = 0;
    // False where the core is not certain to say what tshark says of layers 2 to 4: tshark decides this
    // frame.
    bool sure = true;
    // True where bytes stand above what the core decodes (an application, or an unknown ethertype or IP
    // protocol), so that only tshark can name the rest; false where the native tokens are the whole stack.
    bool payload_undecoded = false;
    Issue issue{};

    std::uint8_t vlan_count = 0;
    std::uint8_t label_count = 0;
    std::array<std::uint16_t, kMaxVlans> vlans;    // outermost first
    std::array<std::uint32_t, kMaxLabels> labels;  // outermost first
    std::uint8_t tunnel_count = 0;
    std::array<Tunnel, kMaxTunnels> tunnels;  // outermost first

    std::uint32_t inner_wire_len = 0;  // as schemas/tables/frames.yaml defines it

    // Innermost network header; ip_version 0 where there is none.
    std::uint8_t ip_version = 0;
    std::uint8_t ip_proto = 0;
    bool later_fragment = false;
    std::array<std::byte, 16> src;  // IPv4: the first 4 bytes
    std::array<std::byte, 16> dst;
    bool has_ip_id = false;    // IPv4
    std::uint16_t ip_id = 0;   // identification, RFC 791
    std::uint32_t ip_len = 0;  // header and payload, by the header (IPv6 jumbograms: by the frame)

    PacketSpan network;  // the innermost IP header, also one that is cut, with its payload
    // What the innermost ethertype names, or stands behind MPLS labels; no data(): none. Where an 802.3
    // length stands in the ethertype's place it is taken for one, and bytes do not follow it yet.
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
    Bytes payload;                  // the captured part of what stands above the last native header

    // The Ethernet frame that the innermost pseudowire with a control word carries; empty where there is
    // none. tshark may take the control word for an address, so it is asked about this frame instead.
    Bytes pseudowire_frame;
    std::uint32_t pseudowire_frame_len = 0;
    std::uint8_t pseudowire_tokens = 0;  // tokens before it

    void reset();
};

}  // namespace acapella
