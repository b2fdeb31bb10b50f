// Headers of flowstats.p4: input of its hashes, and reports as RoCEv2 frames.
#ifndef ACAPELLA_FLOWSTATS_HEADERS_P4
#define ACAPELLA_FLOWSTATS_HEADERS_P4

#include "headers.p4"

// Input of the digest: a flow's key without labels. Never emitted.
header key_h {
    bit<64> src_high;
    bit<64> src_low;
    bit<64> dst_high;
    bit<64> dst_low;
    bit<16> src_port;
    bit<16> dst_port;
    bit<8>  ip_version;
    bit<8>  ip_proto;
    bit<8>  vlan_count;
    bit<8>  reserved;
    bit<64> vlans;
}

// Input of the hash of a sketch row: its number, the 64-bit digest of the key without labels, and the labels. Never
// emitted.
header row_h {
    bit<32> number;
    bit<32> crc;
    bit<32> jhash;
    bit<64> labels;   // three labels of 20 bits, and the number of labels in the lowest 4 bits
    bit<32> label_4;
}

// A flow's cells in each row. Never emitted.
header cells_h {
    bit<64> bytes_0;
    bit<64> bytes_1;
    bit<64> bytes_2;
    bit<64> bytes_3;
    bit<64> packets_0;
    bit<64> packets_1;
    bit<64> packets_2;
    bit<64> packets_3;
}

// Scratch values that do not fit into the 256 bytes of metadata. Never emitted.
header work_h {
    bit<64> fingerprint;
    bit<64> peer_fingerprint;
    bit<64> labels;
    bit<64> was;       // old value of a register
    bit<64> since;     // time difference
    bit<64> sum;
    bit<64> following;
    bit<32> label_4;
    bit<32> other;     // value of a register
    bit<32> begin;     // sequence numbers: first of the data
    bit<32> end;       // next number after data and FIN
    bit<32> highest;   // next number after all previous data
    bit<32> behind;    // distance in bytes below the highest number
    bit<32> length;
    bit<32> fill_from;
    bit<32> fill_to;
    bit<32> filled;
    bit<32> near;      // bytes from the end of the data to the highest number
    bit<32> advance;   // increase of the highest number by this packet
    bit<32> place;     // index of the slot's first hole
    bit<32> free;
    bit<32> lowest;    // index of the lowest hole, and its bounds
    bit<32> lowest_from;
    bit<32> lowest_to;
    bit<32> open_start;  // a hole that this packet opens
    bit<32> open_end;
    bit<32> base;
    bit<32> floor;
    bit<32> forgotten;
    bit<32> fresh;     // bytes below all previous data
}

// BTH: InfiniBand architecture volume 1, section 9.2.
header bth_h {
    bit<8>  opcode;
    bit<8>  flags;      // solicited event, migration state, padding, version
    bit<16> partition;
    bit<32> queue_pair; // 24 bits
    bit<32> psn;        // 24 bits; bit 31 requests an acknowledgment
}

// RETH: InfiniBand architecture volume 1, section 9.3.3.
header reth_h {
    bit<64> address;
    bit<32> key;
    bit<32> length;
}

// schemas/report_formats.tsv defines the fields of both formats.
header report_1_h {
    bit<32> src;
    bit<32> dst;
    bit<16> src_port;
    bit<16> dst_port;
    bit<32> rtt;
    bit<32> bytes_0;
    bit<32> bytes_1;
    bit<32> bytes_2;
    bit<32> bytes_3;
    bit<32> iat;
    bit<32> packet_type;
    bit<16> packets_0;
    bit<16> packets_1;
    bit<16> packets_2;
    bit<16> packets_3;
    bit<32> ack;
    bit<32> seq;
    bit<64> timestamp;
}

header report_2_h {
    bit<8>  version;
    bit<8>  ip_version;
    bit<8>  ip_proto;
    bit<8>  tcp_flags;
    bit<16> trigger;
    bit<16> valid;
    bit<8>  vlan_count;
    bit<8>  mpls_count;
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> ingress_port;
    bit<64> src_high;
    bit<64> src_low;
    bit<64> dst_high;
    bit<64> dst_low;
    bit<64> vlans;
    bit<32> mpls_0;
    bit<32> mpls_1;
    bit<32> mpls_2;
    bit<32> mpls_3;
    bit<32> epoch;
    bit<32> report_sequence;
    bit<64> timestamp;
    bit<64> start;
    bit<64> bytes;
    bit<64> packets;
    bit<64> rtt_syn;
    bit<64> rtt_ack;
    bit<64> iat;
    bit<32> first_ack;
    bit<32> seq_end;
    bit<32> ack;
    bit<32> duplicate_acks;
    bit<64> retransmitted_bytes;
    bit<64> gap_bytes;
    bit<64> payload_bytes;
    bit<64> last;
    bit<64> uncertain_bytes;
}

#endif
