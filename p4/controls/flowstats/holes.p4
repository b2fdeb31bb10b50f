// Updates the holes of a slot for reordered data: gaps and retransmissions.
//
// A slot stores the HOLES highest holes, so both counts are exact as long as no more holes are open. A lower hole is
// dropped from the list: its bytes are added to slot_forgotten, and data below slot_floor either fills such a hole or
// is a retransmission. This data is counted as uncertain while there are forgotten bytes that it can fill, and as
// retransmitted afterwards.
//
// Distances are measured backwards from the highest sequence number, so a larger distance is earlier. Holes at a
// distance of a window or more are dropped before sequence numbers wrap around (modulo 2^32) and reach them again.
#define NO_PLACE 0xffffffff
#define FAR 0xffffffff

#define HOLE(N) \
    meta.index = hdr.work.place + N; \
    hdr.work.fill_from = slot_hole_start.read(meta.index); \
    hdr.work.fill_to = slot_hole_end.read(meta.index); \
    meta.vacant = 1; \
    if (hdr.work.fill_from != hdr.work.fill_to) { \
        hdr.work.fill_from = hdr.work.highest - hdr.work.fill_from; \
        hdr.work.fill_to = hdr.work.highest - hdr.work.fill_to; \
        hdr.work.begin = hdr.work.behind; \
        if (hdr.work.begin > hdr.work.fill_from) { \
            hdr.work.begin = hdr.work.fill_from; \
        } \
        hdr.work.end = hdr.work.near; \
        if (hdr.work.end < hdr.work.fill_to) { \
            hdr.work.end = hdr.work.fill_to; \
        } \
        if (hdr.work.begin > hdr.work.end) { \
            hdr.work.filled = hdr.work.filled + hdr.work.begin; \
            hdr.work.filled = hdr.work.filled - hdr.work.end; \
            if (hdr.work.end == hdr.work.near) { \
                meta.old_fin = 0; \
            } \
            if (hdr.work.fill_from > hdr.work.behind) { \
                hdr.work.other = hdr.work.highest - hdr.work.behind; \
                slot_hole_end.write(meta.index, hdr.work.other); \
                if (hdr.work.near > hdr.work.fill_to) { \
                    hdr.work.open_start = hdr.work.highest - hdr.work.near; \
                    hdr.work.open_end = hdr.work.highest - hdr.work.fill_to; \
                } \
                hdr.work.fill_to = hdr.work.behind; \
            } else { \
                hdr.work.other = hdr.work.highest - hdr.work.end; \
                slot_hole_start.write(meta.index, hdr.work.other); \
                hdr.work.fill_from = hdr.work.end; \
            } \
        } \
        if (hdr.work.fill_from != hdr.work.fill_to) { \
            hdr.work.other = hdr.work.fill_from + hdr.work.advance; \
            if (hdr.work.other >= WINDOW) { \
                hdr.work.forgotten = hdr.work.forgotten + hdr.work.fill_from; \
                hdr.work.forgotten = hdr.work.forgotten - hdr.work.fill_to; \
                if (hdr.work.fill_to < hdr.work.floor) { \
                    hdr.work.floor = hdr.work.fill_to; \
                } \
                hdr.work.other = hdr.work.highest - hdr.work.fill_to; \
                slot_hole_start.write(meta.index, hdr.work.other); \
            } else { \
                meta.vacant = 0; \
                if (hdr.work.fill_from > hdr.work.lowest_from) { \
                    hdr.work.lowest_from = hdr.work.fill_from; \
                    hdr.work.lowest_to = hdr.work.fill_to; \
                    hdr.work.lowest = meta.index; \
                } \
            } \
        } \
    } \
    if (meta.vacant == 1) { \
        if (hdr.work.free == NO_PLACE) { \
            hdr.work.free = meta.index; \
        } \
    }

// Input in hdr.work: highest, advance; behind, near and length of the data and FIN below the highest number (otherwise
// 0); open_start and open_end of a hole that opens above it (otherwise equal). meta.state: the state of the slot.
// meta.old_fin: 1 if the last number of the data is that of a FIN.
control Holes(inout headers_t hdr, inout metadata_t meta) {
    apply {
        hdr.work.base = FAR;
        if (meta.state & STATE_BASE != 0) {
            hdr.work.base = slot_base.read(meta.slot);
            hdr.work.base = hdr.work.highest - hdr.work.base;
        }
        hdr.work.floor = FAR;
        if (meta.state & STATE_FLOOR != 0) {
            hdr.work.floor = slot_floor.read(meta.slot);
            hdr.work.floor = hdr.work.highest - hdr.work.floor;
        }
        hdr.work.forgotten = 0;
        hdr.work.filled = 0;
        hdr.work.fresh = 0;
        hdr.work.since = 0;  // uncertain bytes of the data
        if (hdr.work.length != 0) {
            hdr.work.fill_from = hdr.work.base;
            if (hdr.work.behind > hdr.work.base) {
                slot_base.write(meta.slot, hdr.work.begin);
                hdr.work.fresh = hdr.work.behind - hdr.work.base;
                if (hdr.work.near > hdr.work.base) {
                    hdr.work.fresh = hdr.work.length;
                    hdr.work.forgotten = hdr.work.near - hdr.work.base;
                    if (meta.state & STATE_SYN != 0) {
                        hdr.work.other = slot_isn.read(meta.slot);
                        hdr.work.other = hdr.work.other + 1;
                        hdr.work.other = hdr.work.highest - hdr.work.other;
                        if (hdr.work.other == hdr.work.base) {  // the SYN's number was observed
                            hdr.work.forgotten = hdr.work.forgotten - 1;
                        }
                    }
                    hdr.work.was = slot_gap.read(meta.slot);
                    hdr.work.was = hdr.work.was + (bit<64>)hdr.work.forgotten;
                    slot_gap.write(meta.slot, hdr.work.was);
                    if (hdr.work.base < hdr.work.floor) {
                        hdr.work.floor = hdr.work.base;
                    }
                }
                hdr.work.base = hdr.work.behind;
            }
            if (hdr.work.fill_from > hdr.work.behind) {
                hdr.work.fill_from = hdr.work.behind;
            }
            hdr.work.fill_to = hdr.work.floor;
            if (hdr.work.fill_to < hdr.work.near) {
                hdr.work.fill_to = hdr.work.near;
            }
            if (hdr.work.fill_from > hdr.work.fill_to) {
                hdr.work.fill_from = hdr.work.fill_from - hdr.work.fill_to;
                hdr.work.since = (bit<64>)hdr.work.fill_from;
                hdr.work.was = slot_forgotten.read(meta.slot);
                if (hdr.work.since > hdr.work.was) {
                    hdr.work.since = hdr.work.was;
                }
                hdr.work.was = hdr.work.was - hdr.work.since;
                slot_forgotten.write(meta.slot, hdr.work.was);
                hdr.work.was = slot_uncertain.read(meta.slot);
                hdr.work.was = hdr.work.was + hdr.work.since;
                slot_uncertain.write(meta.slot, hdr.work.was);
            }
        }
        hdr.work.place = meta.slot << 3;  // times HOLES
        hdr.work.free = NO_PLACE;
        hdr.work.lowest_from = 0;
        hdr.work.lowest_to = 0;
        hdr.work.lowest = 0;
        HOLE(0)
        HOLE(1)
        HOLE(2)
        HOLE(3)
        HOLE(4)
        HOLE(5)
        HOLE(6)
        HOLE(7)
        if (hdr.work.open_start != hdr.work.open_end) {
            hdr.work.other = hdr.work.open_end - hdr.work.open_start;
            if (hdr.work.other >= WINDOW) {
                hdr.work.forgotten = hdr.work.forgotten + hdr.work.other;
                hdr.work.floor = hdr.work.highest - hdr.work.open_end;
            } else {
                if (hdr.work.free == NO_PLACE) {
                    hdr.work.free = hdr.work.lowest;
                    hdr.work.forgotten = hdr.work.forgotten + hdr.work.lowest_from;
                    hdr.work.forgotten = hdr.work.forgotten - hdr.work.lowest_to;
                    if (hdr.work.lowest_to < hdr.work.floor) {
                        hdr.work.floor = hdr.work.lowest_to;
                    }
                }
                slot_hole_start.write(hdr.work.free, hdr.work.open_start);
                slot_hole_end.write(hdr.work.free, hdr.work.open_end);
            }
        }
        if (hdr.work.forgotten != 0) {
            hdr.work.was = slot_forgotten.read(meta.slot);
            hdr.work.was = hdr.work.was + (bit<64>)hdr.work.forgotten;
            slot_forgotten.write(meta.slot, hdr.work.was);
            hdr.work.other = hdr.work.highest - hdr.work.floor;
            slot_floor.write(meta.slot, hdr.work.other);
            meta.state = meta.state | STATE_FLOOR;
        }
        if (meta.state & STATE_BASE != 0) {
            hdr.work.other = hdr.work.base + hdr.work.advance;
            if (hdr.work.other >= WINDOW) {
                meta.state = meta.state & ~STATE_BASE;
            }
        }
        if (meta.state & STATE_FLOOR != 0) {
            hdr.work.other = hdr.work.floor + hdr.work.advance;
            if (hdr.work.other >= WINDOW) {
                meta.state = meta.state & ~STATE_FLOOR;
                slot_forgotten.write(meta.slot, 0);
            }
        }
        if (hdr.work.length != 0) {
            hdr.work.was = slot_gap.read(meta.slot);
            hdr.work.was = hdr.work.was - hdr.work.since;
            hdr.work.was = hdr.work.was - (bit<64>)hdr.work.filled;
            slot_gap.write(meta.slot, hdr.work.was);
            hdr.work.length = hdr.work.length - hdr.work.fresh;
            hdr.work.length = hdr.work.length - hdr.work.filled;
            hdr.work.other = (bit<32>)hdr.work.since;
            hdr.work.length = hdr.work.length - hdr.work.other;
            if (meta.old_fin == 1) {
                if (hdr.work.length != 0) {  // a retransmitted FIN is not payload
                    hdr.work.length = hdr.work.length - 1;
                }
            }
            hdr.work.was = slot_retransmitted.read(meta.slot);
            hdr.work.was = hdr.work.was + (bit<64>)hdr.work.length;
            slot_retransmitted.write(meta.slot, hdr.work.was);
        }
    }
}
#undef HOLE
#undef FAR
#undef NO_PLACE
