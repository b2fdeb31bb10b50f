// How much of a frame the host keeps: the least of what was captured, the filter's rule, and the registers here, each
// off while 0. The frame's length on the wire goes along unchanged.
#ifndef ACAPELLA_CUT_P4
#define ACAPELLA_CUT_P4

control Cut(inout headers_t hdr, inout metadata_t meta) {
    @name("snap") Register<bit<32>, bit<32>>(1, 0) snap;                  // octets
    @name("headers_only") Register<bit<32>, bit<32>>(1, 0) headers_only;  // 1: up to the end of the last header read

    apply {
        if (hdr.egress.length > meta.kept) {
            hdr.egress.length = meta.kept;
        }
        meta.size = snap.read(0);
        if (meta.size != 0) {
            if (hdr.egress.length > meta.size) {
                hdr.egress.length = meta.size;
            }
        }
        meta.size = headers_only.read(0);
        if (meta.size != 0) {
            if (hdr.egress.length > meta.parsed) {
                hdr.egress.length = meta.parsed;
            }
        }
    }
}

#endif
