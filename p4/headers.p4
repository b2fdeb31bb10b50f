// Headers of frames, of the loader, and of the programs' own. Fields are whole octets of at most 64 bits, which is
// what DPDK's software pipeline moves; an IPv6 address is therefore two halves.
#ifndef ACAPELLA_HEADERS_P4
#define ACAPELLA_HEADERS_P4

// Before each frame that the loader gives to a program. At least 512 octets lie behind it: zeros after the frame.
header ingress_h {
    bit<64> timestamp_ns;
    bit<32> wire_length;      // without this header
    bit<32> captured_length;  // without this header
    bit<32> port;
    bit<32> flags;            // INGRESS_PROBE
}
#define INGRESS_PROBE 1

// Before each frame or report that a program gives back.
header egress_h {
    bit<64> timestamp_ns;
    bit<32> wire_length;
    bit<32> length;    // octets behind this header that the host keeps
    bit<32> port;
    bit<32> sequence;  // of the ingress port, from 0, of all frames received
    bit<32> hash;
    bit<8>  kind;      // KIND_*
    bit<8>  reason;    // REASON_*
    bit<16> reserved;
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
    bit<32> word;  // RFC 4448 4.6
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

// Hop-by-hop and destination options, routing, fragment (RFC 8200 4), authentication (RFC 4302).
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

// Looked at, never emitted: the first octets of what comes next, the ports of a TCP or UDP header that may be cut,
// and what could be an Ethernet frame with and without a control word before it.
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
    bit<16> plain_type;    // the ethertype of a frame that starts here
    bit<16> plain_first;
    bit<16> worded_type;   // the ethertype of a frame behind a control word
    bit<16> worded_first;
}

// The key of the frame's flow: tags of all layers, endpoints of the innermost IP header. Valid for every frame and
// never emitted; it is a header, and not metadata, because the pipeline reaches 256 octets of metadata, and so that
// tables and hashes read it in one piece: all but the labels are the first 48 octets.
// Absent values are zero; `ip_version` is zero where no IP header was whole.
header flow_h {
    bit<64> src_high;  // IPv4: zero
    bit<64> src_low;   // IPv4: the lower 32 bits
    bit<64> dst_high;
    bit<64> dst_low;
    bit<16> src_port;  // TCP and UDP, but for fragments after the first
    bit<16> dst_port;
    bit<8>  ip_version;
    bit<8>  ip_proto;  // behind the extension headers that were read
    bit<8>  vlan_count;  // tags read, at most 8; `vlans` holds the last four
    bit<8>  reserved;
    bit<64> vlans;     // ids of 16 bits each, the innermost in the lowest
    bit<32> mpls_count;
    bit<32> label_1;   // outermost
    bit<32> label_2;
    bit<32> label_3;
    bit<32> label_4;
}

// For sampling: what is the same in both directions of a flow and wherever it is seen. Never emitted.
header sample_flow_h {
    bit<64> low_high;   // the endpoint with the lower address, then port
    bit<64> low_low;
    bit<64> high_high;
    bit<64> high_low;
    bit<16> low_port;   // zero in every fragment, so that all of a packet share their flow's lot
    bit<16> high_port;
    bit<8>  ip_version;
    bit<8>  ip_proto;
    bit<16> type;       // of a frame without IP, whose endpoints are its MAC addresses
}

// And what tells the packets of a flow apart, wherever they are seen: no tags, no time to live. Never emitted.
header sample_packet_h {
    bit<32> flow_hash;
    bit<32> swapped;         // 1: from the higher endpoint to the lower
    bit<32> identification;  // IPv4: identification, flags and offset; IPv6: flow label
    bit<32> length;
    bit<32> word_1;          // TCP: seq, ack, checksum and window; UDP: length and checksum; ICMP: its two words
    bit<32> word_2;
    bit<32> word_3;
}

// An address on its way through a table, and the sums that checksums change by. Never emitted.
header edit_h {
    bit<48> mac;
    bit<32> ipv4;
    bit<32> old_ipv4;
    bit<64> high;       // of an IPv6 address
    bit<64> low;
    bit<64> old_high;
    bit<64> old_low;
    bit<64> sum;        // of ~old + new over the addresses that changed, in words of 32 bits (RFC 1624)
    bit<64> outer_sum;  // that of the outer IPv4 header
    bit<64> inner_sum;
    bit<64> transport_sum;  // that of the innermost IP header
    bit<64> change;
    bit<64> carry;
    bit<16> checksum;
}

// What a frame is parsed into, in the order of the wire. For the struct of each main file.
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

// What the parser leaves. It sets each of these, but the first, for every frame: the pipeline keeps the values of the
// frame before.
// A header is valid only where all of its octets were captured and lie inside what the lengths before it allow.
#define PARSED_METADATA \
    bit<32> hash;           /* for what a hash gives: DPDK keeps 8 bits of the place of a hash's result, in bits, so \
                               that it is right in the first 32 octets of metadata only. Not the parser's. */ \
    bit<32> parsed;         /* octets of the frame up to the end of the last header read, TCP options included */ \
    bit<32> end;            /* octets of the frame that may be read: captured, and inside the IP lengths */ \
    bit<32> wire_end;       /* the same on the wire */ \
    bit<32> ip_length;      /* octets of the innermost IP packet from its header on, as it says itself; what was on \
                               the wire where it says 0 */ \
    bit<32> payload_length; /* octets behind the TCP, UDP, ICMP or ICMPv6 header on the wire; with `transport` */ \
    bit<8> transport;       /* 6, 17, 1, 58: that header is valid and sound; else 0 */ \
    bit<8> fragment;        /* FRAGMENT_*, of the innermost IP header */ \
    bit<8> innermost;       /* INNERMOST_* */ \
    bit<8> routed;          /* 1: a routing header with segments left, so that the destination is not the last */ \
    bit<8> parse_end;       /* END_* */ \
    bit<8> next;            /* scratch of the parser, as all below */ \
    bit<16> type; \
    bit<32> need; \
    bit<32> room; \
    bit<32> size; \
    bit<32> bits;

#endif
