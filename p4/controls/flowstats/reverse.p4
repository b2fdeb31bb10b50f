// Selects the reverse flow for the report, with the labels stored in its slot. LookUp then reads its cells.
control Reverse(inout headers_t hdr, inout metadata_t meta) {
    apply {
        if (meta.peer_held == 0) {
            hdr.row.labels = 0;
            hdr.row.label_4 = 0;
        } else {
            hdr.row.labels = slot_labels.read(meta.peer_slot);
            hdr.row.label_4 = slot_label_4.read(meta.peer_slot);
        }
        hdr.flow.src_high = hdr.peer.src_high;
        hdr.flow.src_low = hdr.peer.src_low;
        hdr.flow.dst_high = hdr.peer.dst_high;
        hdr.flow.dst_low = hdr.peer.dst_low;
        hdr.flow.src_port = hdr.peer.src_port;
        hdr.flow.dst_port = hdr.peer.dst_port;
        hdr.flow.mpls_count = 0;
        hdr.flow.label_1 = 0;
        hdr.flow.label_2 = 0;
        hdr.flow.label_3 = 0;
        hdr.flow.label_4 = 0;
        if (hdr.row.labels != 0) {
            hdr.work.labels = hdr.row.labels & 0xf;
            hdr.flow.mpls_count = (bit<32>)hdr.work.labels;
            hdr.work.labels = hdr.row.labels >> 44;
            hdr.flow.label_1 = (bit<32>)hdr.work.labels;
            hdr.work.labels = hdr.row.labels >> 24;
            hdr.work.labels = hdr.work.labels & 0xfffff;
            hdr.flow.label_2 = (bit<32>)hdr.work.labels;
            hdr.work.labels = hdr.row.labels >> 4;
            hdr.work.labels = hdr.work.labels & 0xfffff;
            hdr.flow.label_3 = (bit<32>)hdr.work.labels;
            hdr.flow.label_4 = hdr.row.label_4;
        }
        meta.own_crc = meta.peer_crc;
        hdr.row.crc = meta.peer_crc;
        hdr.row.jhash = meta.peer_jhash;
        meta.slot = meta.peer_slot;
        meta.held = meta.peer_held;
        meta.trigger = meta.peer_trigger;
        meta.bank = active_bank.read(0);
    }
}
