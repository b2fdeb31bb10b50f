// What is compiled in: how much of everything there is, and the numbers that programs, loader and models share.
#ifndef ACAPELLA_SIZES_P4
#define ACAPELLA_SIZES_P4

// Ports of the pipeline. Programs never drop a packet (DPDK's drop acts before the emits, and nothing would be
// counted): they send it to the sink with a reason.
const bit<32> PORT_OUT = 0;
const bit<32> PORT_SINK = 1;

const bit<32> PORTS = 256;  // ingress ports with a state of their own; a port's index is its number modulo this

// egress_h.kind
const bit<8> KIND_FRAME = 0;
const bit<8> KIND_REPORT = 1;

// egress_h.reason: why a frame is not sent. 1 to 31 are preprocess.p4's, 32 and above flowstats.p4's.
const bit<8> REASON_SENT = 0;
const bit<8> REASON_FILTERED = 1;        // the filter's table says reject
const bit<8> REASON_NOT_NTH = 2;         // 1-in-n sampling
const bit<8> REASON_FLOW_SAMPLED = 3;    // outside the share of flows that is kept
const bit<8> REASON_PACKET_SAMPLED = 4;  // outside the share of packets that is kept

// metadata.parse_end: why the parser stopped.
const bit<8> END_WHOLE = 0;     // behind a TCP, UDP, ICMP or ICMPv6 header
const bit<8> END_OTHER = 1;     // at something that it does not know
const bit<8> END_CUT = 2;       // in a header that is not wholly there
const bit<8> END_BAD = 3;       // at a length or version that cannot be
const bit<8> END_DEEP = 4;      // at one header more of a kind than there is room for
const bit<8> END_FRAGMENT = 5;  // at a fragment that is not the first
const bit<32> ENDS = 8;

// metadata.fragment
const bit<8> FRAGMENT_NONE = 0;
const bit<8> FRAGMENT_FIRST = 1;
const bit<8> FRAGMENT_LATER = 2;

// metadata.innermost: which IP header the flow key is of.
const bit<8> INNERMOST_NONE = 0;
const bit<8> INNERMOST_OUTER = 1;
const bit<8> INNERMOST_INNER = 2;

// What the filter and the address tables hold.
#define FILTER_ENTRIES 1024
#define ADDRESS_ENTRIES 4096

#endif
