// Report format 1, as published: 64 bytes.
control PublishedReport(inout headers_t hdr, inout metadata_t meta) {
    apply {
        hdr.report_1.setValid();
        hdr.report_1.src = (bit<32>)hdr.flow.src_low;
        hdr.report_1.dst = (bit<32>)hdr.flow.dst_low;
        hdr.report_1.src_port = hdr.flow.src_port;
        hdr.report_1.dst_port = hdr.flow.dst_port;
        hdr.report_1.bytes_0 = (bit<32>)hdr.cells.bytes_0;
        hdr.report_1.bytes_1 = (bit<32>)hdr.cells.bytes_1;
        hdr.report_1.bytes_2 = (bit<32>)hdr.cells.bytes_2;
        hdr.report_1.bytes_3 = (bit<32>)hdr.cells.bytes_3;
        hdr.report_1.packets_0 = (bit<16>)hdr.cells.packets_0;
        hdr.report_1.packets_1 = (bit<16>)hdr.cells.packets_1;
        hdr.report_1.packets_2 = (bit<16>)hdr.cells.packets_2;
        hdr.report_1.packets_3 = (bit<16>)hdr.cells.packets_3;
        hdr.report_1.rtt = 0;
        hdr.report_1.iat = 0;
        hdr.report_1.seq = 0;
        hdr.report_1.ack = 0;
        hdr.report_1.packet_type = 1;
        if (meta.held == 1) {
            meta.state = slot_state.read(meta.slot);
            if (meta.state & STATE_RTT_SYN != 0) {
                hdr.work.since = slot_rtt_syn.read(meta.slot);
                hdr.work.since = hdr.work.since >> 10;
                hdr.report_1.rtt = (bit<32>)hdr.work.since;
            }
            if (meta.state & STATE_IAT != 0) {
                hdr.work.since = slot_iat.read(meta.slot);
                hdr.report_1.iat = (bit<32>)hdr.work.since;
            }
            if (meta.state & STATE_DATA != 0) {
                hdr.report_1.seq = slot_data_seq.read(meta.slot);
            }
        }
        if (meta.transport == 6) {
            hdr.report_1.ack = hdr.tcp.ack;
            if (hdr.tcp.flags & TCP_SYN != 0) {
                hdr.report_1.packet_type = 0;
                if (hdr.tcp.flags & TCP_ACK != 0) {
                    hdr.report_1.packet_type = 3;
                }
            } else {
                if (hdr.tcp.flags & (TCP_FIN | TCP_RST) != 0) {
                    hdr.report_1.packet_type = 4;
                } else {
                    if (hdr.tcp.flags & TCP_ACK != 0) {
                        if (meta.payload_length == 0) {
                            hdr.report_1.packet_type = 2;
                        }
                    }
                }
            }
        }
        hdr.report_1.timestamp = hdr.ingress.timestamp_ns & 0xffffffffffff;
    }
}
