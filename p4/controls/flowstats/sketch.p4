// Reads a flow's cells of the count-min sketch into hdr.cells. hdr.row identifies the flow, meta.bank selects the bank.
// 64-bit counters do not wrap: at 100 Gbit/s, this would take 46 years.
//
// Rows are independent: each row hashes its number and the digest, and jhash mixes the number into every bit of the
// result. With a CRC, the number would only move the same collisions to other cells, and four rows would be no better
// than one.
#define FIND(N) \
    hdr.row.number = N; \
    meta.row_hash = jhash.get_hash(hdr.row); \
    meta.index = meta.row_hash & meta.mask; \
    meta.index = meta.index + meta.bank; \
    hdr.cells.bytes_##N = sketch_bytes_##N.read(meta.index); \
    hdr.cells.packets_##N = sketch_packets_##N.read(meta.index);

#define ADD(N) \
    if (meta.probe == 0) { \
        hdr.cells.bytes_##N = hdr.cells.bytes_##N + (bit<64>)meta.ip_length; \
        hdr.cells.packets_##N = hdr.cells.packets_##N + 1; \
        sketch_bytes_##N.write(meta.index, hdr.cells.bytes_##N); \
        sketch_packets_##N.write(meta.index, hdr.cells.packets_##N); \
    }

#define NO_ROW(N) \
    hdr.cells.bytes_##N = 0; \
    hdr.cells.packets_##N = 0;

#define ROWS(ROW) \
    if (meta.bank != 0) { \
        meta.bank = meta.mask + 1; \
    } \
    ROW(0) \
    if (meta.rows >= 2) { \
        ROW(1) \
        if (meta.rows >= 3) { \
            ROW(2) \
            if (meta.rows >= 4) { \
                ROW(3) \
            } \
        } \
    }

#define COUNTED(N) FIND(N) ADD(N)

// Counts the packet in its flow's cells and reads them, including this packet. For a probe, reads the cells of the
// inactive bank.
control Count(inout headers_t hdr, inout metadata_t meta) {
    Hash<bit<32>>(PNA_HashAlgorithm_t.TARGET_DEFAULT) jhash;

    apply {
        hdr.cells.setValid();
        NO_ROW(1)
        NO_ROW(2)
        NO_ROW(3)
        meta.rows = rows.read(0);
        meta.mask = cell_mask.read(0);
        ROWS(COUNTED)
    }
}

// Reads the cells of another flow. `rows` and `mask` must still have the values set by Count.
control LookUp(inout headers_t hdr, inout metadata_t meta) {
    Hash<bit<32>>(PNA_HashAlgorithm_t.TARGET_DEFAULT) jhash;

    apply {
        ROWS(FIND)
    }
}
#undef COUNTED
#undef ROWS
#undef NO_ROW
#undef ADD
#undef FIND
