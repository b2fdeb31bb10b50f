// Flow statistics: counts packets of every IP flow, tracks TCP state, and sends reports as RDMA WRITEs to the
// collector. Frames are not forwarded. Frames for which no report is sent go to the sink with the reason.
#include <core.p4>
#include <pna.p4>

#include "flowstats_headers.p4"
#include "flowstats_registers.p4"

struct headers_t {
    PARSED_HEADERS
    key_h own;
    key_h peer;  // of the reverse flow
    row_h row;
    cells_h cells;
    work_h work;
    ethernet_h report_ethernet;
    ipv4_h report_ipv4;
    udp_h report_udp;
    bth_h bth;
    reth_h reth;
    report_1_h report_1;
    report_2_h report_2;
}

struct metadata_t {
    // These fields are first because DPDK's `hash` can write only to the first 32 bytes of metadata.
    bit<32> own_crc;
    bit<32> own_jhash;
    bit<32> peer_crc;
    bit<32> peer_jhash;
    bit<32> row_hash;
    PARSED_METADATA
    bit<32> slot;
    bit<32> peer_slot;
    bit<32> mask;
    bit<32> index;
    bit<32> bank;
    bit<32> rows;
    bit<32> state;
    bit<32> waits;     // handshake bits of the state
    bit<32> answers;   // state bits to set
    bit<32> epoch_mark;
    bit<32> pair;
    bit<32> sequence;
    bit<32> report_bytes;
    bit<16> trigger;
    bit<16> peer_trigger;
    bit<16> asked;
    bit<16> valid;
    bit<8> reason;
    bit<8> probe;
    bit<8> held;       // the flow has a slot
    bit<8> fresh;      // the slot was allocated for this packet
    bit<8> peer_held;
    bit<8> first;      // first packet of the flow in this epoch
    bit<8> opens;      // the sequence numbers of the slot start with this packet
    bit<8> vacant;     // a hole, slot or record is free
    bit<8> scans;      // scan the holes
    bit<8> old_fin;    // a FIN below the highest number that does not fill a hole
    bit<8> found;      // a slot or record has the flow's digest or hash
    bit<8> measures;
    bit<8> advances;
    bit<8> tags_whole;
    bit<8> layout;
}

#include "parser.p4"
#include "controls/flowstats/identity.p4"
#include "controls/flowstats/slot.p4"
#include "controls/flowstats/sketch.p4"
#include "controls/flowstats/slotless.p4"
#include "controls/flowstats/times.p4"
#include "controls/flowstats/sequence.p4"
#include "controls/flowstats/handshake.p4"
#include "controls/flowstats/acknowledgment.p4"
#include "controls/flowstats/triggers.p4"
#include "controls/flowstats/reverse.p4"
#include "controls/flowstats/estimate.p4"
#include "controls/flowstats/queue_pair.p4"
#include "controls/flowstats/roce.p4"
#include "controls/flowstats/report_1.p4"
#include "controls/flowstats/report_2.p4"
#include "controls/flowstats/emit_report.p4"

control PreControl(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd,
                   inout pna_pre_output_metadata_t ostd) {
    apply {}
}

control FlowStatistics(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd,
                       inout pna_main_output_metadata_t ostd) {
    Identity() identity;
    Slot() slot;
    Count() count;
    Times() times;
    Slotless() slotless_flow;
    Sequence() sequence;
    Handshake() handshake;
    Acknowledgment() acknowledgment;
    Triggers() trigger;
    Reverse() reverse;
    LookUp() look_up;
    Estimate() estimate;
    QueuePair() queue_pair;
    Roce() roce;
    PublishedReport() published_report;
    Report() report;

    apply {
        meta.probe = (bit<8>)hdr.ingress.flags & 1;
        meta.reason = REASON_NO_FLOW;
        meta.trigger = 0;
        hdr.egress.setValid();
        hdr.egress.sequence = port_sequence.read(hdr.ingress.port);
        if (meta.probe == 0) {
            meta.index = hdr.egress.sequence + 1;
            port_sequence.write(hdr.ingress.port, meta.index);
        }
        hdr.egress.hash = 0;
        if (hdr.flow.ip_version != 0) {
            meta.reason = REASON_NO_TRIGGER;
            meta.tags_whole = 1;
            meta.advances = 0;
            meta.epoch_mark = epoch.read(0);
            meta.epoch_mark = meta.epoch_mark + 1;
            identity.apply(hdr, meta);
            hdr.egress.hash = meta.own_jhash;
            slot.apply(hdr, meta);
            meta.bank = active_bank.read(0);
            meta.bank = meta.bank ^ (bit<32>)meta.probe;
            count.apply(hdr, meta);
            if (meta.probe == 0) {
                times.apply(hdr, meta);
                if (meta.transport == 6) {
                    if (meta.held == 1) {
                        sequence.apply(hdr, meta);
                    }
                    if (meta.peer_held == 1) {
                        if (hdr.tcp.flags & TCP_ACK != 0) {
                            if (hdr.tcp.flags & TCP_RST == 0) {
                                handshake.apply(hdr, meta);
                            }
                            acknowledgment.apply(hdr, meta);
                        }
                    }
                    if (hdr.tcp.flags & TCP_RST != 0) {
                        if (meta.held == 1) {
                            meta.state = slot_state.read(meta.slot);
                            meta.state = meta.state | STATE_ENDED;
                            slot_state.write(meta.slot, meta.state);
                        }
                        if (meta.peer_held == 1) {
                            meta.state = slot_state.read(meta.peer_slot);
                            meta.state = meta.state | STATE_ENDED;
                            slot_state.write(meta.peer_slot, meta.state);
                        }
                    }
                }
            }
            trigger.apply(hdr, meta);
            if (meta.trigger == 0) {
                if (meta.peer_trigger != 0) {
                    reverse.apply(hdr, meta);
                    look_up.apply(hdr, meta);
                }
            }
            if (meta.trigger != 0) {
                estimate.apply(hdr, meta);
                meta.layout = format.read(0);
                meta.reason = REASON_SENT;
                if (meta.layout == 1) {
                    meta.report_bytes = 64;
                    if (hdr.flow.ip_version != 4) {
                        meta.reason = REASON_NOT_IN_FORMAT;
                    }
                } else {
                    meta.report_bytes = 192;
                    if (meta.peer_trigger == meta.trigger && meta.held == 0) {
                        slotless_flow.apply(hdr, meta);
                        if (meta.found == 0) {
                            meta.reason = REASON_REVERSE_UNKNOWN;
                        }
                    }
                }
                if (meta.reason == REASON_SENT) {
                    queue_pair.apply(hdr, meta);
                }
                if (meta.reason == REASON_SENT) {
                    if (meta.layout == 1) {
                        published_report.apply(hdr, meta);
                    } else {
                        report.apply(hdr, meta);
                    }
                    roce.apply(hdr, meta);
                    if (meta.probe == 0 && meta.held == 1) {
                        slot_reported.write(meta.slot, hdr.ingress.timestamp_ns);
                        slot_unreported.write(meta.slot, 0);
                        meta.state = slot_state.read(meta.slot);
                        meta.state = meta.state & ~STATE_PENDING;
                        slot_state.write(meta.slot, meta.state);
                    }
                }
            }
        }
        hdr.egress.timestamp_ns = hdr.ingress.timestamp_ns;
        hdr.egress.wire_length = hdr.ingress.wire_length;
        hdr.egress.length = 0;
        hdr.egress.port = hdr.ingress.port;
        hdr.egress.kind = KIND_FRAME;
        hdr.egress.reason = meta.reason;
        hdr.egress.reserved = 0;
        if (meta.trigger & TRIGGER_FIRST != 0) {
            hdr.egress.reserved = EGRESS_FIRST;
        }
        hdr.egress.reserved_too = 0;
        if (meta.reason == REASON_SENT) {
            hdr.egress.kind = KIND_REPORT;
            hdr.egress.length = meta.report_bytes + 70;  // Ethernet 14, IPv4 20, UDP 8, BTH 12, RETH 16
            hdr.egress.wire_length = meta.report_bytes + 74;
            send_to_port((PortId_t)PORT_OUT);
        } else {
            send_to_port((PortId_t)PORT_SINK);
        }
    }
}

control EmitAll(packet_out pkt, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    EmitReport() emit_report;

    apply {
        emit_report.apply(pkt, hdr);
    }
}

PNA_NIC(FrameParser(), PreControl(), FlowStatistics(), EmitAll()) main;
