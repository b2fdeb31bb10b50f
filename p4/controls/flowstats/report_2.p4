// Report format 2: 192 bytes.
control Report(inout headers_t hdr, inout metadata_t meta) {
    apply {
        hdr.report_2.setValid();
        hdr.report_2.version = 2;
        hdr.report_2.ip_version = hdr.flow.ip_version;
        hdr.report_2.ip_proto = hdr.flow.ip_proto;
        hdr.report_2.tcp_flags = 0;
        if (meta.transport == 6) {
            hdr.report_2.tcp_flags = hdr.tcp.flags;
        }
        hdr.report_2.trigger = meta.trigger;
        hdr.report_2.vlan_count = hdr.flow.vlan_count;
        hdr.report_2.vlans = hdr.flow.vlans;
        if (hdr.flow.vlan_count == 1) {
            hdr.report_2.vlans = hdr.report_2.vlans << 48;
        } else {
            if (hdr.flow.vlan_count == 2) {
                hdr.report_2.vlans = hdr.report_2.vlans << 32;
            } else {
                if (hdr.flow.vlan_count == 3) {
                    hdr.report_2.vlans = hdr.report_2.vlans << 16;
                } else {
                    if (hdr.flow.vlan_count >= 5) {
                        hdr.report_2.vlan_count = 4;
                        meta.tags_whole = 0;
                    }
                }
            }
        }
        hdr.report_2.mpls_count = (bit<8>)hdr.flow.mpls_count;
        hdr.report_2.mpls_0 = hdr.flow.label_1;
        hdr.report_2.mpls_1 = hdr.flow.label_2;
        hdr.report_2.mpls_2 = hdr.flow.label_3;
        hdr.report_2.mpls_3 = hdr.flow.label_4;
        hdr.report_2.src_port = hdr.flow.src_port;
        hdr.report_2.dst_port = hdr.flow.dst_port;
        hdr.report_2.ingress_port = (bit<16>)hdr.ingress.port;
        hdr.report_2.src_high = hdr.flow.src_high;
        hdr.report_2.src_low = hdr.flow.src_low;
        hdr.report_2.dst_high = hdr.flow.dst_high;
        hdr.report_2.dst_low = hdr.flow.dst_low;
        hdr.report_2.epoch = epoch.read(0);
        if (meta.probe == 1) {
            hdr.report_2.epoch = hdr.report_2.epoch - 1;
        }
        hdr.report_2.report_sequence = meta.sequence;
        hdr.report_2.timestamp = hdr.ingress.timestamp_ns;
        hdr.report_2.bytes = hdr.work.was;
        hdr.report_2.packets = hdr.work.sum;
        hdr.report_2.start = 0;
        hdr.report_2.rtt_syn = 0;
        hdr.report_2.rtt_ack = 0;
        hdr.report_2.iat = 0;
        hdr.report_2.seq_end = 0;
        hdr.report_2.first_ack = 0;
        hdr.report_2.ack = 0;
        hdr.report_2.duplicate_acks = 0;
        hdr.report_2.retransmitted_bytes = 0;
        hdr.report_2.gap_bytes = 0;
        hdr.report_2.payload_bytes = 0;
        hdr.report_2.last = 0;
        hdr.report_2.uncertain_bytes = 0;
        meta.valid = 0;
        if (meta.held == 1) {
            meta.valid = 833;  // start, slot, last, uncertain
            hdr.report_2.start = slot_start.read(meta.slot);
            hdr.report_2.last = slot_last.read(meta.slot);
            hdr.report_2.duplicate_acks = slot_duplicate_acks.read(meta.slot);
            hdr.report_2.retransmitted_bytes = slot_retransmitted.read(meta.slot);
            hdr.report_2.gap_bytes = slot_gap.read(meta.slot);
            hdr.report_2.uncertain_bytes = slot_uncertain.read(meta.slot);
            hdr.report_2.payload_bytes = slot_payload.read(meta.slot);
            meta.state = slot_state.read(meta.slot);
            if (meta.state & STATE_RTT_SYN != 0) {
                hdr.report_2.rtt_syn = slot_rtt_syn.read(meta.slot);
                meta.valid = meta.valid | 2;
            }
            if (meta.state & STATE_RTT_ACK != 0) {
                hdr.report_2.rtt_ack = slot_rtt_ack.read(meta.slot);
                meta.valid = meta.valid | 4;
            }
            if (meta.state & STATE_IAT != 0) {
                hdr.report_2.iat = slot_iat.read(meta.slot);
                meta.valid = meta.valid | 8;
            }
            if (meta.state & STATE_SEQ != 0) {
                hdr.report_2.seq_end = slot_seq_end.read(meta.slot);
                meta.valid = meta.valid | 16;
            }
            if (meta.state & STATE_ACK != 0) {
                hdr.report_2.first_ack = slot_first_ack.read(meta.slot);
                hdr.report_2.ack = slot_ack.read(meta.slot);
                meta.valid = meta.valid | 32;
            }
        }
        if (meta.tags_whole == 1) {
            meta.valid = meta.valid | 128;
        }
        hdr.report_2.valid = meta.valid;
    }
}
