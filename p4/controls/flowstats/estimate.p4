// The estimate: the least of a flow's cells, of the rows in use.
#define LEAST(N) \
    if (hdr.cells.bytes_##N < hdr.work.was) { \
        hdr.work.was = hdr.cells.bytes_##N; \
    } \
    if (hdr.cells.packets_##N < hdr.work.sum) { \
        hdr.work.sum = hdr.cells.packets_##N; \
    }

control Least(inout headers_t hdr, inout metadata_t meta) {
    apply {
        hdr.work.was = hdr.cells.bytes_0;
        hdr.work.sum = hdr.cells.packets_0;
        if (meta.rows >= 2) {
            LEAST(1)
            if (meta.rows >= 3) {
                LEAST(2)
                if (meta.rows >= 4) {
                    LEAST(3)
                }
            }
        }
    }
}
#undef LEAST
