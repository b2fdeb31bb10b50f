// Acknowledgments of the reverse flow: the highest acknowledgment number, and duplicate ACKs as defined in RFC 5681
// section 2: (a) data is outstanding, (b) the ACK has no data, (c) neither SYN nor FIN is set, (d) the ACK repeats the
// highest number, (e) its window equals that of the previous ACK. If the reverse flow was not observed, (a) is unknown
// and nothing is counted.
control Acknowledgment(inout headers_t hdr, inout metadata_t meta) {
    apply {
        meta.state = slot_state.read(meta.peer_slot);
        if (meta.state & STATE_ACK == 0) {
            meta.advances = 1;
            hdr.work.other = hdr.tcp.ack;
            if (meta.state & STATE_SYN != 0) {
                hdr.work.other = slot_isn.read(meta.peer_slot);
                hdr.work.other = hdr.work.other + 1;
            }
            slot_first_ack.write(meta.peer_slot, hdr.work.other);
        } else {
            hdr.work.other = slot_ack.read(meta.peer_slot);
            hdr.work.begin = hdr.tcp.ack - hdr.work.other;
            if (hdr.work.begin == 0) {
                hdr.work.other = slot_window.read(meta.peer_slot);
                hdr.work.highest = slot_seq_end.read(meta.peer_slot);
                hdr.work.highest = hdr.work.highest - hdr.tcp.ack;
                if (meta.payload_length == 0 && hdr.tcp.flags & (TCP_SYN | TCP_FIN) == 0
                    && hdr.work.other == (bit<32>)hdr.tcp.window && meta.state & STATE_SEQ != 0
                    && hdr.work.highest != 0 && hdr.work.highest <= HALF_32 - 1) {
                    hdr.work.other = slot_duplicate_acks.read(meta.peer_slot);
                    hdr.work.other = hdr.work.other + 1;
                    slot_duplicate_acks.write(meta.peer_slot, hdr.work.other);
                    meta.state = meta.state | STATE_PENDING;
                    slot_state.write(meta.peer_slot, meta.state);
                }
            } else {
                if (hdr.work.begin < HALF_32) {
                    meta.advances = 1;
                }
            }
        }
        if (meta.advances == 1) {
            slot_ack.write(meta.peer_slot, hdr.tcp.ack);
            meta.state = meta.state | STATE_ACK | STATE_PENDING;
            hdr.work.other = slot_seq_end.read(meta.peer_slot);
            if (meta.state & STATE_FIN != 0 && hdr.work.other == hdr.tcp.ack) {
                meta.state = meta.state | STATE_ENDED;
            }
            slot_state.write(meta.peer_slot, meta.state);
        }
        hdr.work.other = (bit<32>)hdr.tcp.window;
        slot_window.write(meta.peer_slot, hdr.work.other);
    }
}
