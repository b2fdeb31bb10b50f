// Truncates frames to the minimum of the captured length, the limit of the filter's entry, and the registers below (0:
// no limit). The frame's length on the wire is forwarded unchanged.
#ifndef ACAPELLA_CUT_P4
#define ACAPELLA_CUT_P4

control Cut(inout headers_t hdr, inout metadata_t meta) {
    @name("snap") Register<bit<32>, bit<32>>(1, 0) snap;                  // bytes
    @name("headers_only") Register<bit<32>, bit<32>>(1, 0) headers_only;  // 1: keep only the parsed headers

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
