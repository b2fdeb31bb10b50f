// The flow's slot, if it is or can be its own, and whether the reverse flow has one.
//
// A slot is taken over where its flow was idle for slot_timeout_ns and not seen in this epoch, so that its last report
// of an epoch is out. A flow without a slot is counted, and reported without what only a slot knows.
control Slot(inout headers_t hdr, inout metadata_t meta) {
    apply {
        meta.held = 0;
        meta.fresh = 0;
        hdr.work.was = slot_fingerprint.read(meta.slot);
        if (hdr.work.was == hdr.work.fingerprint) {
            hdr.work.sum = slot_labels.read(meta.slot);
            hdr.work.other = slot_label_4.read(meta.slot);
            if (hdr.work.sum == hdr.work.labels) {
                if (hdr.work.other == hdr.work.label_4) {
                    meta.held = 1;
                }
            }
        }
        if (meta.held == 0) {
            if (meta.probe == 0) {
                meta.index = 2;
                if (hdr.work.was == 0) {
                    meta.index = 0;
                } else {
                    hdr.work.other = slot_epoch.read(meta.slot);
                    if (hdr.work.other != meta.epoch_mark) {
                        hdr.work.since = slot_last.read(meta.slot);
                        hdr.work.since = hdr.ingress.timestamp_ns - hdr.work.since;
                        hdr.work.sum = slot_timeout_ns.read(0);
                        if (hdr.work.since < HALF_64) {
                            if (hdr.work.since >= hdr.work.sum) {
                                meta.index = 1;
                            }
                        }
                    }
                }
                hdr.work.sum = slot_counters.read(meta.index);
                hdr.work.sum = hdr.work.sum + 1;
                slot_counters.write(meta.index, hdr.work.sum);
                if (meta.index != 2) {
                    meta.held = 1;
                    meta.fresh = 1;
                    slot_fingerprint.write(meta.slot, hdr.work.fingerprint);
                    slot_labels.write(meta.slot, hdr.work.labels);
                    slot_label_4.write(meta.slot, hdr.work.label_4);
                    slot_start.write(meta.slot, hdr.ingress.timestamp_ns);
                    slot_last.write(meta.slot, hdr.ingress.timestamp_ns);
                    slot_reported.write(meta.slot, hdr.ingress.timestamp_ns);
                    slot_epoch.write(meta.slot, 0);
                    slot_state.write(meta.slot, 0);
                    slot_unreported.write(meta.slot, 0);
                    slot_duplicate_acks.write(meta.slot, 0);
                    slot_retransmitted.write(meta.slot, 0);
                    slot_gap.write(meta.slot, 0);
                    slot_payload.write(meta.slot, 0);
                }
            }
        }
        meta.peer_held = 0;
        if (meta.transport == 6) {
            hdr.work.was = slot_fingerprint.read(meta.peer_slot);
            if (hdr.work.was == hdr.work.peer_fingerprint) {
                meta.peer_held = 1;
            }
        }
    }
}
