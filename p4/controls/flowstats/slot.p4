// Finds or allocates the flow's slot, and finds the slot of the reverse flow.
//
// A flow has four candidate slots: for each half of its digest, the slot with that number and the adjacent one. The
// flow uses the first free slot, otherwise the first slot that can be evicted. A slot can be evicted if its flow has
// ended or was idle for slot_timeout_ns, and if the flow either has been reported completely or sent nothing in this
// epoch, so that its probe is over. A digest is in at most one slot, so flows that differ only in their labels use the
// same slot in turn. A flow without a slot is counted, and reported without the values that require a slot.
#define OWN(HALF, FLIP) \
    if (meta.found == 0) { \
        meta.index = meta.own_##HALF ^ FLIP; \
        meta.index = meta.index & meta.mask; \
        hdr.work.was = slot_fingerprint.read(meta.index); \
        if (hdr.work.was == hdr.work.fingerprint) { \
            meta.found = 1; \
            meta.slot = meta.index; \
        } else { \
            if (hdr.work.was == 0) { \
                if (meta.vacant == 0) { \
                    meta.vacant = 1; \
                    hdr.work.free = meta.index; \
                } \
            } \
        } \
    }

#define PEER(HALF, FLIP) \
    if (meta.peer_held == 0) { \
        meta.index = meta.peer_##HALF ^ FLIP; \
        meta.index = meta.index & meta.mask; \
        hdr.work.was = slot_fingerprint.read(meta.index); \
        if (hdr.work.was == hdr.work.peer_fingerprint) { \
            meta.peer_held = 1; \
            meta.peer_slot = meta.index; \
        } \
    }

#define EVICT(HALF, FLIP) \
    if (hdr.work.place == 2) { \
        if (meta.found == 0) { \
            meta.slot = meta.own_##HALF ^ FLIP; \
            meta.slot = meta.slot & meta.mask; \
        } \
        hdr.work.lowest = 2; \
        hdr.work.since = slot_last.read(meta.slot); \
        hdr.work.since = hdr.ingress.timestamp_ns - hdr.work.since; \
        if (hdr.work.since < HALF_64) { \
            if (hdr.work.since >= hdr.work.sum) { \
                hdr.work.lowest = 1; \
            } \
        } \
        meta.state = slot_state.read(meta.slot); \
        if (meta.state & STATE_ENDED != 0) { \
            hdr.work.lowest = 3; \
        } \
        if (hdr.work.lowest != 2) { \
            hdr.work.other = slot_epoch.read(meta.slot); \
            if (hdr.work.other != meta.epoch_mark) { \
                hdr.work.place = hdr.work.lowest; \
            } else { \
                hdr.work.other = slot_unreported.read(meta.slot); \
                if (hdr.work.other == 0) { \
                    if (meta.state & STATE_PENDING == 0) { \
                        hdr.work.place = hdr.work.lowest; \
                    } \
                } \
            } \
        } \
    }

control Slot(inout headers_t hdr, inout metadata_t meta) {
    apply {
        meta.held = 0;
        meta.fresh = 0;
        meta.found = 0;
        meta.vacant = 0;
        meta.slot = 0;
        meta.peer_slot = 0;
        OWN(jhash, 0)
        OWN(crc, 0)
        OWN(jhash, 1)
        OWN(crc, 1)
        if (meta.found == 1) {
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
                hdr.work.place = 2;  // index of slot_counters: no slot
                if (meta.found == 0 && meta.vacant == 1) {
                    hdr.work.place = 0;
                    meta.slot = hdr.work.free;
                } else {
                    hdr.work.sum = slot_timeout_ns.read(0);
                    EVICT(jhash, 0)
                    EVICT(crc, 0)
                    EVICT(jhash, 1)
                    EVICT(crc, 1)
                }
                hdr.work.sum = slot_counters.read(hdr.work.place);
                hdr.work.sum = hdr.work.sum + 1;
                slot_counters.write(hdr.work.place, hdr.work.sum);
                if (hdr.work.place != 2) {
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
                    slot_uncertain.write(meta.slot, 0);
                    slot_payload.write(meta.slot, 0);
                }
            }
        }
        meta.peer_held = 0;
        if (meta.transport == 6) {
            PEER(jhash, 0)
            PEER(crc, 0)
            PEER(jhash, 1)
            PEER(crc, 1)
        }
    }
}
#undef EVICT
#undef PEER
#undef OWN
