// The state of one frame's dissection, and functions shared by all dissectors.
#pragma once

#include <cstdint>

#include "dissect/vni.hpp"
#include "frame/cursor.hpp"
#include "frame/dissection.hpp"
#include "frame/issue.hpp"
#include "frame/tokens.hpp"
#include "frame/tunnels.hpp"

namespace acapella {

class Vendors;

// The next dissector. Walk::key selects it for `by_ethertype` and `by_protocol`. kNextCount in dispatch.cpp
// is derived from the last enumerator.
enum class Next : std::uint8_t {
    stop,
    by_ethertype,
    by_protocol,
    ethernet,
    llc,
    vlan,
    service_vlan,
    pbb,
    mpls,
    pseudowire_heuristic,
    arp,
    ipv4,
    ipv6,
    hop_by_hop,
    ipv6_routing,
    ipv6_fragment,
    destination_options,
    authentication,
    tcp,
    udp,
    udplite,
    sctp,
    icmp,
    icmpv6,
    igmp,
    pim,
    gre,
    etherip,
    vxlan,
    vxlan_gpe,
    geneve,
    gtp,
    udpencap,
    l2tp,
    l2tp_ip,
    teredo,
    ptp,
    infiniband,
    pppoe_session,
    ppp,
    slow,
    osi,
};

struct Walk {
    Walk(const Record& record, Dissection& dissection, const Vendors* known_vendors)
        : at(record.bytes, record.wire_len),
          out(dissection),
          vendors(known_vendors),
          start(record.bytes.data()),
          wire_len(record.wire_len) {}

    Cursor at;
    Dissection& out;
    const Vendors* vendors;  // known to tshark; may be null
    const std::byte* start;
    std::uint32_t wire_len;
    std::uint32_t link_len = 0;   // length of the nearest link header, without VLAN tags and MPLS
    std::uint16_t key = 0;        // ethertype or IP protocol
    std::uint8_t ip_version = 0;  // of the nearest network header, including that of a quoted packet
    bool innermost = false;       // Depth::innermost
    bool quoted = false;          // inside a packet quoted in an ICMP error: tokens only, no keys
    vni::OuterKey outer_key;
    bool trailer = false;  // nonzero bytes follow the packet

    void push(Token token, std::uint8_t repeats = 1) {
        if (out.token_count == kMaxTokens) {
            overflow();
            return;
        }
        out.tokens[out.token_count] = token;
        out.repeats[out.token_count++] = repeats;
    }

    // Adds an identifier from the header whose token was pushed last. If tshark has no token for a header,
    // the identifier has the position of the previous header.
    void tunnel(TunnelType type, std::uint32_t id) {
        if (quoted) return;
        if (out.tunnel_count == kMaxTunnels) {
            overflow();
            return;
        }
        out.tunnels[out.tunnel_count++] = {.id = id, .position = last_position(out), .type = type};
    }

    // Adds the VNI of a tunnel that is indicated only by a UDP port.
    void vni_tunnel(TunnelType type, std::uint32_t id, bool valid) {
        if (!quoted) outer_key.enter(out, out.label_count);
        if (valid) tunnel(type, id);
    }

    void overflow() {
        out.issue = Issue::too_many_headers;
        out.sure = false;
    }

    // Ends the dissection. The rest is payload, which only tshark can identify.
    Next stop_at_payload() {
        if (!quoted) out.payload = at.rest();
        out.payload_undecoded = at.reported() > 0;
        return Next::stop;
    }
    // Like stop_at_payload(), but tshark may find layers 2 to 4 in the payload.
    Next stop_as_unsure() {
        out.sure = false;
        return stop_at_payload();
    }
    // Ends the dissection with a complete stack.
    static Next stop() { return Next::stop; }
    // Append a header that ends the stack. leaf_with_payload(): tshark may identify its payload.
    Next leaf(Token token) {
        push(token);
        return stop();
    }
    Next leaf_with_payload(Token token) {
        push(token);
        return stop_at_payload();
    }

    // Ends the dissection because the capture or the packet ends inside a header.
    Next truncated(Issue issue) {
        if (quoted) {
            out.sure = false;  // tshark removes tokens of a quoted packet if it is truncated
        } else {
            out.issue = issue;
        }
        return Next::stop;
    }
    Next malformed(Issue issue) { return truncated(issue); }

    Next ethertype(std::uint16_t type) {
        key = type;
        link_payload(type);
        return Next::by_ethertype;
    }
    Next protocol(std::uint8_t number) {
        key = number;
        return Next::by_protocol;
    }

    // Returns the number of bytes on the wire from here to the end of the frame, regardless of inner length
    // fields.
    [[nodiscard]] std::uint32_t to_end() const {
        const auto offset = static_cast<std::uint32_t>(at.rest().data() - start);
        return wire_len > offset ? wire_len - offset : 0;
    }
    // Call after a link header. `length`: its length in bytes, or 0 for tags and labels, which are not
    // counted.
    void link_header(std::uint32_t length) {
        if (quoted) return;
        if (length) link_len = length;
        out.inner_wire_len = link_len + to_end();
    }
    void link_payload(std::uint16_t type) {
        if (quoted) return;
        out.link_payload = {at.rest(), static_cast<std::uint32_t>(at.reported()), 0, type};
    }
    // Call at the start of an IP packet. `at` must end with the packet.
    void network_packet(std::uint8_t version) {
        if (quoted) return;
        out.network = {at.rest(), static_cast<std::uint32_t>(at.reported()), version, 0};
    }
    // Call at the start of a network header, which becomes the innermost.
    void network_header(std::uint8_t version) {
        ip_version = version;
        if (quoted) return;
        outer_key.ip_header_found();
        out.inner_wire_len = link_len + to_end();
        out.ip_version = version;
        out.later_fragment = out.has_ip_id = false;
        out.has_ports = out.has_payload_len = out.has_tcp = false;
    }
    // Limits the packet to the length in an outer length field. Captured bytes after it are padding, or a
    // trailer that tshark decodes.
    void limit(std::size_t length) {
        if (!at.zeros_from(length)) trailer = true;
        at.limit(length);
    }
    void ports() {
        if (quoted) return;
        out.src_port = at.be16(0);
        out.dst_port = at.be16(2);
        out.has_ports = true;
    }
    void payload_length(std::uint32_t length) {
        if (quoted) return;
        out.payload_len = length;
        out.has_payload_len = true;
    }
};

}  // namespace acapella
