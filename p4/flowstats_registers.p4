// Registers of flowstats.p4, which contain all of its state. They are defined outside the controls because several
// controls use a slot, and because control files use these names. DPDK's pipeline uses 8 bytes per entry.
#ifndef ACAPELLA_FLOWSTATS_REGISTERS_P4
#define ACAPELLA_FLOWSTATS_REGISTERS_P4

#include "sizes.p4"

// Settings, one entry each.
Register<bit<32>, bit<32>>(1, 4) rows;               // of the sketch, 1 to 4
Register<bit<32>, bit<32>>(1, 0xffff) cell_mask;     // cells in a row (a power of two up to 2^20) - 1
Register<bit<32>, bit<32>>(1, 0x3ffff) slot_mask;    // slots (a power of two up to 2^18) - 1
Register<bit<64>, bit<32>>(1, 10000000000) slot_timeout_ns;  // idle time before eviction
Register<bit<16>, bit<32>>(1, 495) triggers;         // TRIGGER_*: all but NTH
Register<bit<32>, bit<32>>(1, 0) every;              // for NTH: packets of a flow per report; 0: never
Register<bit<64>, bit<32>>(1, 1000000000) interval_ns;  // for TIME: time between reports of a flow; 0: never
Register<bit<8>, bit<32>>(1, 2) format;              // report format: 1 (published) or 2
Register<bit<32>, bit<32>>(1, 0) active_bank;        // 0 or 1
Register<bit<32>, bit<32>>(1, 0) epoch;
Register<bit<64>, bit<32>>(1, 0) report_dst_mac;
Register<bit<64>, bit<32>>(1, 0) report_src_mac;
Register<bit<32>, bit<32>>(1, 0) report_dst_ip;
Register<bit<32>, bit<32>>(1, 0) report_src_ip;
Register<bit<32>, bit<32>>(1, 0) report_sequence;    // reports sent

// Queue pairs of the collector; qp_mask selects one by the flow's digest.
Register<bit<32>, bit<32>>(1, 0) qp_mask;
Register<bit<32>, bit<32>>(QUEUE_PAIRS, 0) qp_number;  // 0: not set up
Register<bit<32>, bit<32>>(QUEUE_PAIRS, 0) qp_psn;
Register<bit<64>, bit<32>>(QUEUE_PAIRS, 0) qp_address;
Register<bit<64>, bit<32>>(QUEUE_PAIRS, 0) qp_base;
Register<bit<64>, bit<32>>(QUEUE_PAIRS, 0) qp_end;
Register<bit<32>, bit<32>>(QUEUE_PAIRS, 0) qp_key;

// Frames received from each port.
Register<bit<32>, bit<32>>(256, 0) port_sequence;

// The sketch: two consecutive banks of cell_mask + 1 cells.
Register<bit<64>, bit<32>>(CELLS, 0) sketch_bytes_0;
Register<bit<64>, bit<32>>(CELLS, 0) sketch_bytes_1;
Register<bit<64>, bit<32>>(CELLS, 0) sketch_bytes_2;
Register<bit<64>, bit<32>>(CELLS, 0) sketch_bytes_3;
Register<bit<64>, bit<32>>(CELLS, 0) sketch_packets_0;
Register<bit<64>, bit<32>>(CELLS, 0) sketch_packets_1;
Register<bit<64>, bit<32>>(CELLS, 0) sketch_packets_2;
Register<bit<64>, bit<32>>(CELLS, 0) sketch_packets_3;

// Slots. Flow:
Register<bit<64>, bit<32>>(SLOTS, 0) slot_fingerprint;  // digest of the key without labels; 0: free
Register<bit<64>, bit<32>>(SLOTS, 0) slot_labels;       // as in row_h
Register<bit<32>, bit<32>>(SLOTS, 0) slot_label_4;
Register<bit<32>, bit<32>>(SLOTS, 0) slot_state;        // STATE_*
// Times:
Register<bit<64>, bit<32>>(SLOTS, 0) slot_start;        // time of the first packet
Register<bit<64>, bit<32>>(SLOTS, 0) slot_last;         // time of the last packet
Register<bit<64>, bit<32>>(SLOTS, 0) slot_iat;
Register<bit<32>, bit<32>>(SLOTS, 0) slot_epoch;        // latest epoch with a packet, plus 1; 0: none
Register<bit<64>, bit<32>>(SLOTS, 0) slot_reported;     // time of the last report; the start if there is none
Register<bit<32>, bit<32>>(SLOTS, 0) slot_unreported;   // packets since the last report
// Handshake:
Register<bit<32>, bit<32>>(SLOTS, 0) slot_isn;          // sequence number of the latest SYN or SYN-ACK
Register<bit<64>, bit<32>>(SLOTS, 0) slot_syn_time;     // time of the first packet with that number
Register<bit<64>, bit<32>>(SLOTS, 0) slot_rtt_syn;
Register<bit<64>, bit<32>>(SLOTS, 0) slot_rtt_ack;
// Sequence numbers:
Register<bit<32>, bit<32>>(SLOTS, 0) slot_data_seq;     // sequence number of the last packet with data
Register<bit<32>, bit<32>>(SLOTS, 0) slot_seq_end;      // next number after the highest byte, SYN or FIN
Register<bit<32>, bit<32>>(SLOT_HOLES, 0) slot_hole_start;  // missing sequence ranges: HOLES per slot,
Register<bit<32>, bit<32>>(SLOT_HOLES, 0) slot_hole_end;    // in any order; start equal to end: free
Register<bit<32>, bit<32>>(SLOTS, 0) slot_base;         // the lowest byte
Register<bit<32>, bit<32>>(SLOTS, 0) slot_floor;        // end of the highest forgotten hole
Register<bit<64>, bit<32>>(SLOTS, 0) slot_forgotten;    // bytes of forgotten holes, minus those that may have been filled
Register<bit<64>, bit<32>>(SLOTS, 0) slot_uncertain;    // bytes that filled a forgotten hole or were retransmitted
Register<bit<64>, bit<32>>(SLOTS, 0) slot_retransmitted;
Register<bit<64>, bit<32>>(SLOTS, 0) slot_gap;
Register<bit<64>, bit<32>>(SLOTS, 0) slot_payload;
// Acknowledgments by the other direction:
Register<bit<32>, bit<32>>(SLOTS, 0) slot_ack;          // highest acknowledgment number
Register<bit<32>, bit<32>>(SLOTS, 0) slot_first_ack;    // number after the SYN if observed, else the first acknowledgment number
Register<bit<32>, bit<32>>(SLOTS, 0) slot_window;       // window of the latest ACK
Register<bit<32>, bit<32>>(SLOTS, 0) slot_duplicate_acks;

// Records of flows without a slot: epoch + 1 in the upper half, a hash of the flow in the lower half.
Register<bit<64>, bit<32>>(SLOTS, 0) slotless;

// 0: free slots allocated, 1: slots of idle flows evicted, 2: packets of flows without a slot, 3: slots of ended flows
// evicted, 4: packets of flows without a slot that may or may not be the first in this epoch
Register<bit<64>, bit<32>>(8, 0) slot_counters;

#endif
