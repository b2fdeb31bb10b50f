// Registers of flowstats.p4, all of the program's state. They stand outside of the controls because several of them
// share a slot, and so that the control file knows them by these names. 8 octets an entry on DPDK's pipeline.
#ifndef ACAPELLA_FLOWSTATS_REGISTERS_P4
#define ACAPELLA_FLOWSTATS_REGISTERS_P4

#include "sizes.p4"

// Settings, one value each.
Register<bit<32>, bit<32>>(1, 4) rows;               // of the sketch, 1 to 4
Register<bit<32>, bit<32>>(1, 0xffff) cell_mask;     // cells of a row, a power of two up to 2^20, less 1
Register<bit<32>, bit<32>>(1, 0x3ffff) slot_mask;    // slots, a power of two up to 2^18, less 1
Register<bit<64>, bit<32>>(1, 10000000000) slot_timeout_ns;  // from then on another flow may have the slot
Register<bit<16>, bit<32>>(1, 495) triggers;         // TRIGGER_*: all but NTH
Register<bit<32>, bit<32>>(1, 0) every;              // packets of a flow without a report, for NTH; 0: never
Register<bit<64>, bit<32>>(1, 1000000000) interval_ns;  // of a flow without a report, for TIME; 0: never
Register<bit<8>, bit<32>>(1, 2) format;              // of the reports: 1 the published one, 2
Register<bit<32>, bit<32>>(1, 0) active_bank;        // 0 or 1
Register<bit<32>, bit<32>>(1, 0) epoch;
Register<bit<64>, bit<32>>(1, 0) report_dst_mac;
Register<bit<64>, bit<32>>(1, 0) report_src_mac;
Register<bit<32>, bit<32>>(1, 0) report_dst_ip;
Register<bit<32>, bit<32>>(1, 0) report_src_ip;
Register<bit<32>, bit<32>>(1, 0) report_sequence;    // reports so far

// Queue pairs of the collector; qp_mask picks one by the flow's digest.
Register<bit<32>, bit<32>>(1, 0) qp_mask;
Register<bit<32>, bit<32>>(QUEUE_PAIRS, 0) qp_number;  // 0: not set up
Register<bit<32>, bit<32>>(QUEUE_PAIRS, 0) qp_psn;
Register<bit<64>, bit<32>>(QUEUE_PAIRS, 0) qp_address;
Register<bit<64>, bit<32>>(QUEUE_PAIRS, 0) qp_base;
Register<bit<64>, bit<32>>(QUEUE_PAIRS, 0) qp_end;
Register<bit<32>, bit<32>>(QUEUE_PAIRS, 0) qp_key;

// Frames received of each port.
Register<bit<32>, bit<32>>(256, 0) port_sequence;

// The sketch: a bank is cell_mask + 1 cells, the second behind the first.
Register<bit<64>, bit<32>>(CELLS, 0) sketch_bytes_0;
Register<bit<64>, bit<32>>(CELLS, 0) sketch_bytes_1;
Register<bit<64>, bit<32>>(CELLS, 0) sketch_bytes_2;
Register<bit<64>, bit<32>>(CELLS, 0) sketch_bytes_3;
Register<bit<64>, bit<32>>(CELLS, 0) sketch_packets_0;
Register<bit<64>, bit<32>>(CELLS, 0) sketch_packets_1;
Register<bit<64>, bit<32>>(CELLS, 0) sketch_packets_2;
Register<bit<64>, bit<32>>(CELLS, 0) sketch_packets_3;

// Slots. Whose:
Register<bit<64>, bit<32>>(SLOTS, 0) slot_fingerprint;  // digest of the key without labels; 0: free
Register<bit<64>, bit<32>>(SLOTS, 0) slot_labels;       // as row_h
Register<bit<32>, bit<32>>(SLOTS, 0) slot_label_4;
Register<bit<32>, bit<32>>(SLOTS, 0) slot_state;        // STATE_*
// Times:
Register<bit<64>, bit<32>>(SLOTS, 0) slot_start;        // of the slot's first packet
Register<bit<64>, bit<32>>(SLOTS, 0) slot_last;         // of its last
Register<bit<64>, bit<32>>(SLOTS, 0) slot_iat;
Register<bit<32>, bit<32>>(SLOTS, 0) slot_epoch;        // seen last in this one less 1; 0: in none
Register<bit<64>, bit<32>>(SLOTS, 0) slot_reported;     // time of the last report, the start before the first
Register<bit<32>, bit<32>>(SLOTS, 0) slot_unreported;   // packets since
// Handshake:
Register<bit<32>, bit<32>>(SLOTS, 0) slot_isn;          // sequence number of the latest SYN or SYN-ACK
Register<bit<64>, bit<32>>(SLOTS, 0) slot_syn_time;     // of the first that had it
Register<bit<64>, bit<32>>(SLOTS, 0) slot_rtt_syn;
Register<bit<64>, bit<32>>(SLOTS, 0) slot_rtt_ack;
// Sequence numbers:
Register<bit<32>, bit<32>>(SLOTS, 0) slot_data_seq;     // of the last packet with data
Register<bit<32>, bit<32>>(SLOTS, 0) slot_seq_end;      // behind the highest octet, SYN or FIN
Register<bit<32>, bit<32>>(SLOT_HOLES, 0) slot_hole_start;  // what was jumped over and is still missing: HOLES a slot,
Register<bit<32>, bit<32>>(SLOT_HOLES, 0) slot_hole_end;    // in any order; equal: free
Register<bit<32>, bit<32>>(SLOTS, 0) slot_base;         // the lowest octet
Register<bit<32>, bit<32>>(SLOTS, 0) slot_floor;        // behind the highest hole that was forgotten
Register<bit<64>, bit<32>>(SLOTS, 0) slot_forgotten;    // octets of forgotten holes, less what may have filled them
Register<bit<64>, bit<32>>(SLOTS, 0) slot_uncertain;    // octets that filled a forgotten hole or were sent again
Register<bit<64>, bit<32>>(SLOTS, 0) slot_retransmitted;
Register<bit<64>, bit<32>>(SLOTS, 0) slot_gap;
Register<bit<64>, bit<32>>(SLOTS, 0) slot_payload;
// What the other direction acknowledged:
Register<bit<32>, bit<32>>(SLOTS, 0) slot_ack;          // the highest
Register<bit<32>, bit<32>>(SLOTS, 0) slot_first_ack;    // behind the SYN if the slot had it, else the first
Register<bit<32>, bit<32>>(SLOTS, 0) slot_window;       // of the latest ACK
Register<bit<32>, bit<32>>(SLOTS, 0) slot_duplicate_acks;

// Flows without a slot that were seen: epoch + 1 in the upper half, a hash of the flow in the lower.
Register<bit<64>, bit<32>>(SLOTS, 0) slotless;

// 0 slots taken, 1 taken over from an idle flow, 2 packets of flows without a slot, 3 slots taken over from an ended one,
// 4 packets of flows without a slot that were not seen to begin in this epoch
Register<bit<64>, bit<32>>(8, 0) slot_counters;

#endif
