#include "holes.p4"

#define NO_HOLE(N) \
    meta.index = hdr.work.place + N; \
    slot_hole_start.write(meta.index, 0); \
    slot_hole_end.write(meta.index, 0);

// SYN, FIN and sequence numbers of the flow in its slot, modulo 2^32. Data beyond the highest number advances it; Holes
// handles gaps and data below it. Numbers of an RST are ignored, except in slot_data_seq. A segment without data, SYN
// or FIN occupies no sequence number (RFC 9293 section 3.4), so the lowest number is that of the first segment that
// occupies one.
control Sequence(inout headers_t hdr, inout metadata_t meta) {
    Holes() holes;

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
                    // Ports were reused: earlier acknowledgments of the other side belong to the previous connection.
                    meta.state = meta.state & ~(STATE_REPEATED | STATE_ANSWERED | STATE_SYN_ACK | STATE_RTT_SYN
                                                | STATE_RTT_ACK | STATE_ACK | STATE_FIN | STATE_ENDED);
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
                meta.state = meta.state | STATE_FIN;
            }
            if (meta.state & STATE_SEQ == 0) {
                meta.opens = 1;
            }
            if (meta.index != 0) {
                if (meta.state & STATE_NUMBERS == 0) {
                    meta.opens = 1;
                }
                meta.state = meta.state | STATE_NUMBERS;
            }
            if (hdr.tcp.flags & TCP_SYN != 0) {
                meta.state = meta.state | STATE_NUMBERS;
            }
            if (meta.opens == 1) {
                meta.state = meta.state | STATE_SEQ | STATE_BASE;
                meta.state = meta.state & ~STATE_FLOOR;
                slot_seq_end.write(meta.slot, hdr.work.end);
                slot_base.write(meta.slot, hdr.work.begin);
                slot_forgotten.write(meta.slot, 0);
                hdr.work.place = meta.slot << 3;  // times HOLES
                NO_HOLE(0)
                NO_HOLE(1)
                NO_HOLE(2)
                NO_HOLE(3)
                NO_HOLE(4)
                NO_HOLE(5)
                NO_HOLE(6)
                NO_HOLE(7)
            } else {
                if (meta.index != 0) {
                    hdr.work.highest = slot_seq_end.read(meta.slot);
                    hdr.work.behind = hdr.work.highest - hdr.work.begin;
                    hdr.work.advance = hdr.work.end - hdr.work.highest;
                    if (hdr.work.advance >= HALF_32) {
                        hdr.work.advance = 0;
                    }
                    hdr.work.end = hdr.work.highest + hdr.work.advance;
                    slot_seq_end.write(meta.slot, hdr.work.end);
                    hdr.work.length = 0;
                    meta.old_fin = 0;
                    hdr.work.near = 0;
                    hdr.work.open_start = 0;
                    hdr.work.open_end = 0;
                    if (hdr.work.behind > HALF_32) {  // ahead
                        hdr.work.behind = hdr.work.begin - hdr.work.highest;
                        hdr.work.was = slot_gap.read(meta.slot);
                        hdr.work.was = hdr.work.was + (bit<64>)hdr.work.behind;
                        slot_gap.write(meta.slot, hdr.work.was);
                        hdr.work.open_start = hdr.work.highest;
                        hdr.work.open_end = hdr.work.begin;
                        meta.scans = 1;
                    } else {
                        meta.scans = 0;
                        if (hdr.work.behind != 0) {
                            meta.scans = 1;
                            hdr.work.length = meta.index;
                            if (hdr.work.length > hdr.work.behind) {
                                hdr.work.length = hdr.work.behind;
                            } else {
                                if (hdr.tcp.flags & TCP_FIN != 0) {
                                    meta.old_fin = 1;
                                }
                            }
                            hdr.work.near = hdr.work.behind - hdr.work.length;
                        }
                        if (meta.scans == 0) {  // scan the holes at least once per window
                            hdr.work.other = hdr.work.highest ^ hdr.work.end;
                            if (hdr.work.other & 0xc0000000 != 0) {
                                meta.scans = 1;
                            }
                        }
                    }
                    if (meta.scans == 1) {
                        if (hdr.work.length == 0) {
                            hdr.work.behind = 0;
                        }
                        holes.apply(hdr, meta);
                    }
                }
            }
        }
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
#undef NO_HOLE
