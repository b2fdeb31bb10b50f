// Selects the queue pair for the flow's reports, its next sequence number and the ring address. A report that would
// exceed the end of the ring is written to its start.
control QueuePair(inout headers_t hdr, inout metadata_t meta) {
    apply {
        meta.mask = qp_mask.read(0);
        meta.pair = meta.own_crc & meta.mask;
        meta.pair = meta.pair & (QUEUE_PAIRS - 1);
        hdr.bth.setValid();
        hdr.bth.opcode = 0x2a;  // UC RDMA WRITE only
        hdr.bth.flags = 0x40;   // migration state: migrated
        hdr.bth.partition = 0xffff;
        hdr.bth.queue_pair = qp_number.read(meta.pair);
        if (hdr.bth.queue_pair == 0) {
            hdr.bth.setInvalid();
            meta.reason = REASON_NO_QUEUE_PAIR;
        } else {
            hdr.bth.psn = qp_psn.read(meta.pair);
            hdr.work.other = hdr.bth.psn + 1;
            hdr.work.other = hdr.work.other & 0xffffff;
            qp_psn.write(meta.pair, hdr.work.other);
            hdr.reth.setValid();
            hdr.reth.key = qp_key.read(meta.pair);
            hdr.reth.length = meta.report_bytes;
            hdr.reth.address = qp_address.read(meta.pair);
            hdr.work.following = hdr.reth.address + (bit<64>)meta.report_bytes;
            hdr.work.since = hdr.work.following + (bit<64>)meta.report_bytes;
            hdr.work.labels = qp_end.read(meta.pair);
            if (hdr.work.since > hdr.work.labels) {
                hdr.work.following = qp_base.read(meta.pair);
            }
            qp_address.write(meta.pair, hdr.work.following);
            meta.sequence = report_sequence.read(0);
            meta.sequence = meta.sequence + 1;
            report_sequence.write(0, meta.sequence);
        }
    }
}
