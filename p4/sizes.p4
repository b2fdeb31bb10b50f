// Compile-time constants: sizes, and numbers that programs, loader and models share.
#ifndef ACAPELLA_SIZES_P4
#define ACAPELLA_SIZES_P4

// Ports of the pipeline. Programs send packets to the sink with a reason instead of dropping them, because DPDK's drop
// takes effect before the headers are emitted, so that the reason would be lost.
const bit<32> PORT_OUT = 0;
const bit<32> PORT_SINK = 1;

const bit<32> PORTS = 256;  // ingress ports with separate state; the index of a port is its number modulo this

// egress_h.kind
const bit<8> KIND_FRAME = 0;
const bit<8> KIND_REPORT = 1;

// egress_h.reason: the reason for not sending a frame. 1 to 31 are used by preprocess.p4, 32 and above by flowstats.p4.
const bit<8> REASON_SENT = 0;
const bit<8> REASON_FILTERED = 1;        // rejected by the filter's table
const bit<8> REASON_NOT_NTH = 2;         // 1-in-n sampling
const bit<8> REASON_FLOW_SAMPLED = 3;    // flow not sampled
const bit<8> REASON_PACKET_SAMPLED = 4;  // packet not sampled
const bit<8> REASON_NO_TRIGGER = 32;
const bit<8> REASON_NO_FLOW = 33;          // no complete IP header
const bit<8> REASON_REVERSE_UNKNOWN = 34;  // an ACK for a flow that has no slot and was not observed in this epoch
const bit<8> REASON_NO_QUEUE_PAIR = 35;    // not set up
const bit<8> REASON_NOT_IN_FORMAT = 36;    // IPv6 in the published format

// metadata.parse_end: the reason for which the parser stopped.
const bit<8> END_WHOLE = 0;     // after a TCP, UDP, ICMP or ICMPv6 header
const bit<8> END_OTHER = 1;     // at an unknown protocol
const bit<8> END_CUT = 2;       // in a truncated header
const bit<8> END_BAD = 3;       // at an invalid length or version
const bit<8> END_DEEP = 4;      // at a header beyond the supported number of its kind
const bit<8> END_FRAGMENT = 5;  // at a fragment that is not the first
const bit<32> ENDS = 8;

// metadata.fragment
const bit<8> FRAGMENT_NONE = 0;
const bit<8> FRAGMENT_FIRST = 1;
const bit<8> FRAGMENT_LATER = 2;

// metadata.innermost: the IP header of the flow key.
const bit<8> INNERMOST_NONE = 0;
const bit<8> INNERMOST_OUTER = 1;
const bit<8> INNERMOST_INNER = 2;

// Sizes of the filter table and the address tables.
#define FILTER_ENTRIES 1024
#define ADDRESS_ENTRIES 4096

// Flow statistics: cells in a row of the sketch, flows with a slot, queue pairs of the collector.
#define CELLS 2097152  // two banks of 2^20
#define SLOTS 262144
#define HOLES 8
#define SLOT_HOLES 2097152  // SLOTS * HOLES
#define QUEUE_PAIRS 16

// Bits of the register `triggers`. ACK and DATA_ACK report the reverse flow.
const bit<16> TRIGGER_SYN = 1;
const bit<16> TRIGGER_ACK = 2;
const bit<16> TRIGGER_FIN = 4;
const bit<16> TRIGGER_RST = 8;
const bit<16> TRIGGER_NTH = 16;
const bit<16> TRIGGER_TIME = 32;
const bit<16> TRIGGER_FIRST = 64;
const bit<16> TRIGGER_PROBE = 128;
const bit<16> TRIGGER_DATA_ACK = 256;

// egress_h.reserved: the first report of its flow in this epoch
const bit<16> EGRESS_FIRST = 1;

// Bits of slot_state: the values of a slot that are valid, and the state of its latest SYN or SYN-ACK.
const bit<32> STATE_IAT = 1;
const bit<32> STATE_SEQ = 2;
const bit<32> STATE_ACK = 4;
const bit<32> STATE_SYN = 8;
const bit<32> STATE_REPEATED = 16;
const bit<32> STATE_ANSWERED = 32;
const bit<32> STATE_SYN_ACK = 64;
const bit<32> STATE_RTT_SYN = 128;
const bit<32> STATE_RTT_ACK = 256;
const bit<32> STATE_DATA = 512;
const bit<32> STATE_BASE = 1024;     // slot_base is valid, that is, less than a window below the highest number
const bit<32> STATE_FLOOR = 2048;    // slot_floor is valid, as for STATE_BASE
const bit<32> STATE_FIN = 4096;      // a FIN was sent
const bit<32> STATE_ENDED = 8192;    // the FIN was acknowledged, or an RST was sent
const bit<32> STATE_PENDING = 16384; // an acknowledgment has not been reported
const bit<32> STATE_NUMBERS = 32768; // data, a SYN or a FIN was observed: these occupy sequence numbers

const bit<8> TCP_FIN = 0x01;
const bit<8> TCP_SYN = 0x02;
const bit<8> TCP_RST = 0x04;
const bit<8> TCP_ACK = 0x10;

// Half of the range of sequence numbers or times. A distance of this or more is backwards.
const bit<32> HALF_32 = 0x80000000;
const bit<32> WINDOW = 0x40000000;  // RFC 7323 section 2.3: no TCP window is larger
const bit<64> HALF_64 = 0x8000000000000000;

#endif
