// Headers of frames, headers of the loader, and internal headers. DPDK's software pipeline requires fields of whole
// bytes and at most 64 bits, so an IPv6 address is split into two halves.
#ifndef ACAPELLA_HEADERS_P4
#define ACAPELLA_HEADERS_P4

// Header before each frame from the loader. It is followed by at least 512 bytes: the frame, padded with zeros.
header ingress_h {
    bit<64> timestamp_ns;
    bit<32> wire_length;      // without this header
    bit<32> captured_length;  // without this header
    bit<32> port;
    bit<32> flags;            // INGRESS_PROBE
}
#define INGRESS_PROBE 1

// Header before each frame or report to the loader.
header egress_h {
    bit<64> timestamp_ns;
    bit<32> wire_length;
    bit<32> length;    // bytes after this header that the host keeps
    bit<32> port;
    bit<32> sequence;  // number of the frame on its ingress port, from 0
    bit<32> hash;
    bit<8>  kind;      // KIND_*
    bit<8>  reason;    // REASON_*
    bit<16> reserved;  // flags: EGRESS_FIRST
    bit<64> reserved_too;
}

header ethernet_h {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header vlan_h {
    bit<16> tci;
    bit<16> type;
}

header mpls_h {
    bit<32> entry;  // label 20, class 3, bottom of stack 1, time to live 8: RFC 3032
}

header control_word_h {
    bit<32> word;  // RFC 4448 section 4.6
}

header ipv4_h {
    bit<8>  version_ihl;
    bit<8>  tos;
    bit<16> total_length;
    bit<16> identification;
    bit<16> flags_offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header ipv4_options_h {
    bit<32>     first;
    varbit<288> rest;
}

header ipv6_h {
    bit<32> version_class_label;
    bit<16> payload_length;
    bit<8>  next;
    bit<8>  hop_limit;
    bit<64> src_high;
    bit<64> src_low;
    bit<64> dst_high;
    bit<64> dst_low;
}

// Hop-by-hop and destination options, routing, fragment (RFC 8200 section 4), authentication (RFC 4302).
header extension_h {
    bit<8>        next;
    bit<8>        length;
    varbit<16368> rest;
}

header tcp_h {
    bit<16> src_port;
    bit<16> dst_port;
    bit<32> seq;
    bit<32> ack;
    bit<8>  data_offset;  // the upper four bits, in words of 32 bits
    bit<8>  flags;        // CWR ECE URG ACK PSH RST SYN FIN
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

header udp_h {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

// ICMP and ICMPv6.
header icmp_h {
    bit<8>  type;
    bit<8>  code;
    bit<16> checksum;
    bit<16> identifier;  // of an echo
    bit<16> sequence;    // of an echo
}

// Lookahead headers, which are never emitted: the first bytes of the next header, the ports of a TCP or UDP header that
// may be truncated, and a possible Ethernet header with and without a preceding control word.
header peek_h {
    bit<8>  first;
    bit<8>  second;
    bit<16> third;
}

header ports_h {
    bit<16> src;
    bit<16> dst;
}

header pseudowire_peek_h {
    bit<32> word;
    bit<64> addresses;
    bit<16> plain_type;    // EtherType of a frame that starts here
    bit<16> plain_first;
    bit<16> worded_type;   // EtherType of a frame after a control word
    bit<16> worded_first;
}

// The key of the frame's flow: tags of all layers, and the endpoints of the innermost IP header. It is valid for every
// frame and never emitted. It is a header because the pipeline has only 256 bytes of metadata, and because tables and
// hashes need contiguous fields: all fields except the labels are in the first 48 bytes. Missing values are zero;
// `ip_version` is zero if there is no complete IP header.
header flow_h {
    bit<64> src_high;  // IPv4: zero
    bit<64> src_low;   // IPv4: the lower 32 bits
    bit<64> dst_high;
    bit<64> dst_low;
    bit<16> src_port;  // TCP and UDP, except in fragments after the first
    bit<16> dst_port;
    bit<8>  ip_version;
    bit<8>  ip_proto;  // after the parsed extension headers
    bit<8>  vlan_count;  // parsed tags, at most 8; `vlans` has the last four
    bit<8>  reserved;
    bit<64> vlans;     // VLAN IDs in 16 bits each, the innermost in the lowest bits
    bit<32> mpls_count;
    bit<32> label_1;   // outermost
    bit<32> label_2;
    bit<32> label_3;
    bit<32> label_4;
}

// Input of the flow hash for sampling: the same in both directions and wherever the flow is captured. Never emitted.
header sample_flow_h {
    bit<64> low_high;   // the endpoint with the lower address, then port
    bit<64> low_low;
    bit<64> high_high;
    bit<64> high_low;
    bit<16> low_port;   // zero in every fragment, so that all fragments of a packet have the same hash
    bit<16> high_port;
    bit<8>  ip_version;
    bit<8>  ip_proto;
    bit<16> type;       // EtherType of a frame without IP; its endpoints are MAC addresses
}

// Input of the packet hash for sampling. It excludes tags and TTL, so it is the same wherever the packet is captured.
// Never emitted.
header sample_packet_h {
    bit<32> flow_hash;
    bit<32> swapped;         // 1: from the higher endpoint to the lower
    bit<32> identification;  // IPv4: identification, flags and offset; IPv6: flow label
    bit<32> length;
    bit<32> word_1;          // TCP: seq, ack, checksum and window; UDP: length and checksum; ICMP: its two words
    bit<32> word_2;
    bit<32> word_3;
}

// Address for a table lookup, and changes of checksums. Never emitted.
header edit_h {
    bit<48> mac;
    bit<32> ipv4;
    bit<32> old_ipv4;
    bit<64> high;       // halves of an IPv6 address
    bit<64> low;
    bit<64> old_high;
    bit<64> old_low;
    bit<64> sum;        // sum of ~old + new over changed addresses, in 32-bit words (RFC 1624)
    bit<64> outer_sum;  // of the outer IPv4 header
    bit<64> inner_sum;
    bit<64> transport_sum;  // of the innermost IP header
    bit<64> change;
    bit<64> carry;
    bit<16> checksum;
}

// The parsed headers in wire order, for the header struct of each program.
#define PARSED_HEADERS \
    ingress_h ingress; \
    egress_h egress; \
    ethernet_h ethernet; \
    vlan_h outer_vlan_1; \
    vlan_h outer_vlan_2; \
    vlan_h outer_vlan_3; \
    vlan_h outer_vlan_4; \
    mpls_h mpls_1; \
    mpls_h mpls_2; \
    mpls_h mpls_3; \
    mpls_h mpls_4; \
    control_word_h control_word; \
    ethernet_h inner_ethernet; \
    vlan_h inner_vlan_1; \
    vlan_h inner_vlan_2; \
    vlan_h inner_vlan_3; \
    vlan_h inner_vlan_4; \
    ipv4_h outer_ipv4; \
    ipv4_options_h outer_ipv4_options; \
    ipv6_h outer_ipv6; \
    extension_h outer_extension_1; \
    extension_h outer_extension_2; \
    extension_h outer_extension_3; \
    extension_h outer_extension_4; \
    ipv4_h inner_ipv4; \
    ipv4_options_h inner_ipv4_options; \
    ipv6_h inner_ipv6; \
    extension_h inner_extension_1; \
    extension_h inner_extension_2; \
    extension_h inner_extension_3; \
    extension_h inner_extension_4; \
    tcp_h tcp; \
    udp_h udp; \
    icmp_h icmp; \
    flow_h flow; \
    peek_h peek; \
    ports_h ports; \
    pseudowire_peek_h pseudowire;

// Output of the parser. The parser sets every field except the first for every frame, because the pipeline keeps the
// values of the previous frame. A header is valid only if all of its bytes were captured and are within the lengths in
// preceding headers.
#define PARSED_METADATA \
    bit<32> hash;           /* result of a hash: DPDK stores its bit offset in 8 bits, so it must be in the first 32 \
                               bytes of metadata. Not set by the parser. */ \
    bit<32> parsed;         /* bytes of the frame up to the end of the last parsed header, including TCP options */ \
    bit<32> end;            /* bytes of the frame that can be parsed: captured, and within the IP lengths */ \
    bit<32> wire_end;       /* the same on the wire */ \
    bit<32> ip_length;      /* length of the innermost IP packet by its header; the length on the wire if its \
                               length field is 0 */ \
    bit<32> payload_length; /* bytes after the TCP, UDP, ICMP or ICMPv6 header on the wire; if `transport` is set */ \
    bit<8> transport;       /* 6, 17, 1, 58: that header is valid and consistent; else 0 */ \
    bit<8> fragment;        /* FRAGMENT_*, of the innermost IP header */ \
    bit<8> innermost;       /* INNERMOST_* */ \
    bit<8> routed;          /* 1: a routing header has segments left, so the destination is not the final one */ \
    bit<8> parse_end;       /* END_* */ \
    bit<8> next;            /* scratch fields of the parser, like those below */ \
    bit<16> type; \
    bit<32> need; \
    bit<32> room; \
    bit<32> size; \
    bit<32> bits;

#endif
