// The sketch's estimate: the minimum of a flow's cells over the rows in use.
#define MINIMUM(N) \
    if (hdr.cells.bytes_##N < hdr.work.was) { \
        hdr.work.was = hdr.cells.bytes_##N; \
    } \
    if (hdr.cells.packets_##N < hdr.work.sum) { \
        hdr.work.sum = hdr.cells.packets_##N; \
    }

control Estimate(inout headers_t hdr, inout metadata_t meta) {
    apply {
        hdr.work.was = hdr.cells.bytes_0;
        hdr.work.sum = hdr.cells.packets_0;
        if (meta.rows >= 2) {
            MINIMUM(1)
            if (meta.rows >= 3) {
                MINIMUM(2)
                if (meta.rows >= 4) {
                    MINIMUM(3)
                }
            }
        }
    }
}
#undef MINIMUM
