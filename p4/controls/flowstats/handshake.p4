// Handshake round-trip times, in two halves: SYN to SYN-ACK, and SYN-ACK to ACK. No sample is taken if a SYN or SYN-ACK
// was retransmitted (Karn and Partridge 1987), or if the first ACK was not observed.
control Handshake(inout headers_t hdr, inout metadata_t meta) {
    apply {
        meta.state = slot_state.read(meta.peer_slot);
        hdr.work.other = slot_isn.read(meta.peer_slot);
        hdr.work.begin = hdr.tcp.ack - hdr.work.other;
        hdr.work.begin = hdr.work.begin - 1;  // acknowledged bytes after the SYN
        hdr.work.highest = slot_seq_end.read(meta.peer_slot);
        meta.answers = 0;
        meta.measures = 0;
        meta.waits = meta.state & (STATE_SYN | STATE_ANSWERED | STATE_SYN_ACK);
        if (hdr.tcp.flags & TCP_SYN != 0) {
            if (meta.waits == STATE_SYN) {
                // RFC 7413: the SYN-ACK may acknowledge data of the SYN.
                if (hdr.work.begin == 0 || hdr.tcp.ack == hdr.work.highest) {
                    meta.answers = STATE_ANSWERED | STATE_RTT_SYN;
                    meta.measures = 1;
                }
            }
        } else {
            if (meta.waits == (STATE_SYN | STATE_SYN_ACK)) {
                if (hdr.work.begin < HALF_32) {
                    meta.answers = STATE_ANSWERED | STATE_RTT_ACK;
                    if (hdr.work.begin == 0) {
                        meta.measures = 1;
                    }
                }
            }
        }
        if (meta.answers != 0) {
            hdr.work.since = slot_syn_time.read(meta.peer_slot);
            hdr.work.since = hdr.ingress.timestamp_ns - hdr.work.since;
            if (hdr.work.since >= HALF_64) {
                meta.measures = 0;
            }
            if (meta.state & STATE_REPEATED != 0) {
                meta.measures = 0;
            }
            if (meta.measures == 0) {
                meta.answers = STATE_ANSWERED;
            }
            meta.state = meta.state | meta.answers;
            slot_state.write(meta.peer_slot, meta.state);
            if (meta.measures == 1) {
                if (hdr.tcp.flags & TCP_SYN != 0) {
                    slot_rtt_syn.write(meta.peer_slot, hdr.work.since);
                } else {
                    slot_rtt_ack.write(meta.peer_slot, hdr.work.since);
                }
                if (meta.held == 1) {
                    meta.state = slot_state.read(meta.slot);
                    if (hdr.tcp.flags & TCP_SYN != 0) {
                        slot_rtt_syn.write(meta.slot, hdr.work.since);
                        meta.state = meta.state | STATE_RTT_SYN;
                    } else {
                        slot_rtt_ack.write(meta.slot, hdr.work.since);
                        meta.state = meta.state | STATE_RTT_ACK;
                    }
                    slot_state.write(meta.slot, meta.state);
                }
            }
        }
    }
}
