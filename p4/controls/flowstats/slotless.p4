// Determines whether the flow of hdr.row, which has no slot, is recorded for this epoch (meta.found). If not,
// determines whether there is a free place for it (meta.vacant, hdr.work.free). A record consists of the epoch and a
// hash of the flow; each half of the digest selects a place.
#define PLACE(HALF) \
    if (meta.found == 0) { \
        meta.index = slot_mask.read(0); \
        meta.index = hdr.row.HALF & meta.index; \
        hdr.work.following = slotless.read(meta.index); \
        if (hdr.work.following == hdr.work.since) { \
            meta.found = 1; \
        } else { \
            hdr.work.following = hdr.work.following >> 32; \
            if (hdr.work.following != hdr.work.labels) { \
                if (meta.vacant == 0) { \
                    meta.vacant = 1; \
                    hdr.work.free = meta.index; \
                } \
            } \
        } \
    }

control Slotless(inout headers_t hdr, inout metadata_t meta) {
    apply {
        hdr.work.labels = (bit<64>)meta.epoch_mark;
        hdr.work.since = hdr.work.labels << 32;
        hdr.work.since = hdr.work.since | (bit<64>)meta.row_hash;
        meta.found = 0;
        meta.vacant = 0;
        PLACE(crc)
        PLACE(jhash)
    }
}
#undef PLACE
