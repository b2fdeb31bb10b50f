// Determines whether this is the flow's first packet of the epoch, and its inter-arrival time. The two directions are
// separate flows, each with its own inter-arrival time.
control Times(inout headers_t hdr, inout metadata_t meta) {
    Slotless() slotless_flow;

    apply {
        meta.first = 0;
        if (meta.held == 1) {
            hdr.work.other = slot_epoch.read(meta.slot);
            if (hdr.work.other != meta.epoch_mark) {
                meta.first = 1;
                slot_epoch.write(meta.slot, meta.epoch_mark);
            }
            hdr.work.other = slot_unreported.read(meta.slot);
            hdr.work.other = hdr.work.other + 1;
            slot_unreported.write(meta.slot, hdr.work.other);
            if (meta.fresh == 0) {
                hdr.work.since = slot_last.read(meta.slot);
                hdr.work.since = hdr.ingress.timestamp_ns - hdr.work.since;
                meta.state = slot_state.read(meta.slot);
                if (hdr.work.since < HALF_64) {
                    slot_iat.write(meta.slot, hdr.work.since);
                    meta.state = meta.state | STATE_IAT;
                } else {
                    meta.state = meta.state & ~STATE_IAT;
                }
                slot_state.write(meta.slot, meta.state);
                slot_last.write(meta.slot, hdr.ingress.timestamp_ns);
            }
        } else {
            slotless_flow.apply(hdr, meta);
            if (meta.found == 0) {
                if (meta.vacant == 1) {
                    meta.first = 1;
                    slotless.write(hdr.work.free, hdr.work.since);
                } else {
                    // The packet is the first one if any cell contains only this packet; otherwise this cannot be
                    // determined.
                    if (hdr.cells.packets_0 == 1 || hdr.cells.packets_1 == 1 || hdr.cells.packets_2 == 1
                        || hdr.cells.packets_3 == 1) {
                        meta.first = 1;
                    } else {
                        hdr.work.sum = slot_counters.read(4);
                        hdr.work.sum = hdr.work.sum + 1;
                        slot_counters.write(4, hdr.work.sum);
                    }
                }
            }
        }
    }
}
