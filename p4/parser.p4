// The parser of all programs: Ethernet, up to 4 VLAN tags, up to 4 MPLS labels, an Ethernet pseudowire with or without
// control word, up to 4 VLAN tags in it, up to 2 IP headers (the second one inside the first) with up to 4 extension
// headers each, and TCP, UDP, ICMP or ICMPv6. The main file defines headers_t and metadata_t before it includes this
// file.
//
// DPDK's `extract` does not check bounds, and p4c-dpdk creates a variable for every condition in a `select`, but the
// pipeline has only 256 bytes of metadata. So every state first checks bounds without a condition: `room` is the most
// significant bit of `limit - need`, which is 0 if there is enough room. Lengths are below 2^31. Only the lower 31 bits
// of the length on the wire are used, because a capture can contain any value.
//
// States that differ only in their headers are defined once (parser/*.p4) and included with macros.
#ifndef ACAPELLA_PARSER_P4
#define ACAPELLA_PARSER_P4

#define JOIN(prefix, name) JOINED(prefix, name)
#define JOINED(prefix, name) prefix##_##name

parser FrameParser(
    packet_in pkt,
    out headers_t hdr,
    inout metadata_t meta,
    in pna_main_parser_input_metadata_t istd)
{
    state start {
        pkt.extract(hdr.ingress);
        hdr.flow.setValid();
        hdr.flow.src_high = 0;
        hdr.flow.src_low = 0;
        hdr.flow.dst_high = 0;
        hdr.flow.dst_low = 0;
        hdr.flow.src_port = 0;
        hdr.flow.dst_port = 0;
        hdr.flow.ip_version = 0;
        hdr.flow.ip_proto = 0;
        hdr.flow.vlan_count = 0;
        hdr.flow.reserved = 0;
        hdr.flow.vlans = 0;
        hdr.flow.mpls_count = 0;
        hdr.flow.label_1 = 0;
        hdr.flow.label_2 = 0;
        hdr.flow.label_3 = 0;
        hdr.flow.label_4 = 0;
        meta.end = hdr.ingress.captured_length;
        meta.wire_end = hdr.ingress.wire_length & 0x7fffffff;
        meta.parsed = 0;
        meta.ip_length = 0;
        meta.payload_length = 0;
        meta.transport = 0;
        meta.fragment = FRAGMENT_NONE;
        meta.innermost = INNERMOST_NONE;
        meta.routed = 0;
        meta.parse_end = END_WHOLE;
        meta.room = meta.wire_end - meta.end;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: begin;
            default: longer_than_wire;
        }
    }

    state longer_than_wire {
        meta.end = meta.wire_end;
        transition begin;
    }

    state begin {
        meta.need = 14;
        meta.room = meta.end - meta.need;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: ethernet;
            default: cut;
        }
    }

    state cut {
        meta.parse_end = END_CUT;
        transition accept;
    }

    state bad {
        meta.parse_end = END_BAD;
        transition accept;
    }

    state other {
        meta.parse_end = END_OTHER;
        transition accept;
    }

    state too_deep {
        meta.parse_end = END_DEEP;
        transition accept;
    }

    state ethernet {
        pkt.extract(hdr.ethernet);
        meta.parsed = meta.need;
        meta.type = hdr.ethernet.type;
        transition outer_type_0;
    }

#define LEVEL outer
#define MPLS mpls_1
#include "parser/vlan.p4"
#undef MPLS
#undef LEVEL

#define ENTRY mpls_1
#define COUNT 1
#define LABEL label_1
#define FOLLOWING mpls_2
#include "parser/mpls.p4"
#undef FOLLOWING
#undef LABEL
#undef COUNT
#undef ENTRY

#define ENTRY mpls_2
#define COUNT 2
#define LABEL label_2
#define FOLLOWING mpls_3
#include "parser/mpls.p4"
#undef FOLLOWING
#undef LABEL
#undef COUNT
#undef ENTRY

#define ENTRY mpls_3
#define COUNT 3
#define LABEL label_3
#define FOLLOWING mpls_4
#include "parser/mpls.p4"
#undef FOLLOWING
#undef LABEL
#undef COUNT
#undef ENTRY

#define ENTRY mpls_4
#define COUNT 4
#define LABEL label_4
#define FOLLOWING too_deep
#include "parser/mpls.p4"
#undef FOLLOWING
#undef LABEL
#undef COUNT
#undef ENTRY

#include "parser/pseudowire.p4"

#define LEVEL inner
#define MPLS too_deep
#include "parser/vlan.p4"
#undef MPLS
#undef LEVEL

#define LEVEL outer
#define WHICH INNERMOST_OUTER
#define CARRIED_IPV4 inner_ipv4_or_6
#define CARRIED_IPV6 inner_ipv6_only
#include "parser/ip.p4"
#undef CARRIED_IPV6
#undef CARRIED_IPV4
#undef WHICH
#undef LEVEL

#define LEVEL inner
#define WHICH INNERMOST_INNER
#define CARRIED_IPV4 too_deep
#define CARRIED_IPV6 too_deep
#include "parser/ip.p4"
#undef CARRIED_IPV6
#undef CARRIED_IPV4
#undef WHICH
#undef LEVEL

#include "parser/transport.p4"
}

#endif
