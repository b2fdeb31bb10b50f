// SYN and sequence numbers of the flow's own slot, modulo 2^32. A slot knows the highest number and the latest hole:
// data below the highest fills that hole or is a retransmission. RST's numbers say nothing.
control Sequence(inout headers_t hdr, inout metadata_t meta) {
    apply {
        meta.state = slot_state.read(meta.slot);
        meta.opens = 0;
        if (hdr.tcp.flags & TCP_RST == 0) {
            hdr.work.begin = hdr.tcp.seq;
            if (hdr.tcp.flags & TCP_SYN != 0) {
                hdr.work.begin = hdr.work.begin + 1;
                hdr.work.other = slot_isn.read(meta.slot);
                if (meta.state & STATE_SYN != 0 && hdr.work.other == hdr.tcp.seq) {
                    if (meta.state & STATE_ANSWERED == 0) {
                        meta.state = meta.state | STATE_REPEATED;
                    }
                } else {
                    meta.opens = 1;
                    // Ports that are used again: what the other side acknowledged was of the connection before.
                    meta.state = meta.state & ~(STATE_REPEATED | STATE_ANSWERED | STATE_SYN_ACK | STATE_RTT_SYN
                                                | STATE_RTT_ACK | STATE_ACK);
                    meta.state = meta.state | STATE_SYN;
                    if (hdr.tcp.flags & TCP_ACK != 0) {
                        meta.state = meta.state | STATE_SYN_ACK;
                    }
                    slot_isn.write(meta.slot, hdr.tcp.seq);
                    slot_syn_time.write(meta.slot, hdr.ingress.timestamp_ns);
                }
            }
            hdr.work.end = hdr.work.begin + meta.payload_length;
            meta.index = meta.payload_length;
            if (hdr.tcp.flags & TCP_FIN != 0) {
                hdr.work.end = hdr.work.end + 1;
                meta.index = meta.index + 1;
            }
            if (meta.state & STATE_SEQ == 0) {
                meta.opens = 1;
            }
            if (meta.opens == 1) {
                meta.state = meta.state | STATE_SEQ;
                slot_seq_end.write(meta.slot, hdr.work.end);
                slot_hole_start.write(meta.slot, hdr.work.end);
                slot_hole_end.write(meta.slot, hdr.work.end);
            } else {
                if (meta.index != 0) {
                    hdr.work.highest = slot_seq_end.read(meta.slot);
                    hdr.work.behind = hdr.work.highest - hdr.work.begin;
                    if (hdr.work.behind > HALF_32) {  // ahead
                        hdr.work.was = slot_gap.read(meta.slot);
                        hdr.work.behind = hdr.work.begin - hdr.work.highest;
                        hdr.work.was = hdr.work.was + (bit<64>)hdr.work.behind;
                        slot_gap.write(meta.slot, hdr.work.was);
                        slot_hole_start.write(meta.slot, hdr.work.highest);
                        slot_hole_end.write(meta.slot, hdr.work.begin);
                    } else {
                        if (hdr.work.behind != 0) {
                            hdr.work.length = meta.payload_length;
                            if (hdr.work.length > hdr.work.behind) {
                                hdr.work.length = hdr.work.behind;
                            }
                            // Distances are from the highest back, so that larger is earlier.
                            hdr.work.fill_from = slot_hole_start.read(meta.slot);
                            hdr.work.other = hdr.work.fill_from;
                            hdr.work.fill_from = hdr.work.highest - hdr.work.fill_from;
                            meta.from_start = 1;
                            if (hdr.work.fill_from > hdr.work.behind) {
                                hdr.work.fill_from = hdr.work.behind;
                                meta.from_start = 0;
                            }
                            hdr.work.fill_to = slot_hole_end.read(meta.slot);
                            hdr.work.fill_to = hdr.work.highest - hdr.work.fill_to;
                            hdr.work.filled = hdr.work.behind - hdr.work.length;
                            if (hdr.work.fill_to < hdr.work.filled) {
                                hdr.work.fill_to = hdr.work.filled;
                            }
                            hdr.work.filled = 0;
                            if (hdr.work.fill_from > hdr.work.fill_to) {
                                hdr.work.filled = hdr.work.fill_from - hdr.work.fill_to;
                                if (meta.from_start == 1) {
                                    hdr.work.other = hdr.work.other + hdr.work.filled;
                                    slot_hole_start.write(meta.slot, hdr.work.other);
                                } else {  // what lies above is forgotten
                                    hdr.work.other = hdr.work.highest - hdr.work.fill_from;
                                    slot_hole_end.write(meta.slot, hdr.work.other);
                                }
                                hdr.work.was = slot_gap.read(meta.slot);
                                hdr.work.was = hdr.work.was - (bit<64>)hdr.work.filled;
                                slot_gap.write(meta.slot, hdr.work.was);
                            }
                            hdr.work.length = hdr.work.length - hdr.work.filled;
                            hdr.work.was = slot_retransmitted.read(meta.slot);
                            hdr.work.was = hdr.work.was + (bit<64>)hdr.work.length;
                            slot_retransmitted.write(meta.slot, hdr.work.was);
                        }
                    }
                    hdr.work.behind = hdr.work.end - hdr.work.highest;
                    if (hdr.work.behind < HALF_32) {
                        slot_seq_end.write(meta.slot, hdr.work.end);
                    }
                }
            }
        }
        slot_seq.write(meta.slot, hdr.tcp.seq);
        if (meta.payload_length != 0) {
            slot_data_seq.write(meta.slot, hdr.tcp.seq);
            meta.state = meta.state | STATE_DATA;
            hdr.work.was = slot_payload.read(meta.slot);
            hdr.work.was = hdr.work.was + (bit<64>)meta.payload_length;
            slot_payload.write(meta.slot, hdr.work.was);
        }
        slot_state.write(meta.slot, meta.state);
    }
}
