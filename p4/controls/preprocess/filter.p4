// Accepts or rejects frames with a ternary table over the flow's 5-tuple (like the filter of OSNT), independently of
// preceding tags, labels and outer IP headers.
#ifndef ACAPELLA_FILTER_P4
#define ACAPELLA_FILTER_P4

control Filter(inout headers_t hdr, inout metadata_t meta) {
    @name("accept") action accept() {
    }

    // Keeps at most `length` bytes of the frame.
    @name("accept_cut") action accept_cut(bit<32> length) {
        meta.kept = length;
    }

    @name("reject") action reject() {
        hdr.egress.reason = REASON_FILTERED;
    }

    @name("flows") table flows {
        key = {
            hdr.flow.src_high: ternary;
            hdr.flow.src_low: ternary;
            hdr.flow.dst_high: ternary;
            hdr.flow.dst_low: ternary;
            hdr.flow.src_port: ternary;
            hdr.flow.dst_port: ternary;
            hdr.flow.ip_version: ternary;
            hdr.flow.ip_proto: ternary;
            hdr.flow.vlan_count: ternary;
            hdr.flow.vlans: ternary;
        }
        actions = {
            accept;
            accept_cut;
            reject;
        }
        default_action = accept();
        size = FILTER_ENTRIES;
    }

    apply {
        meta.kept = hdr.ingress.captured_length;
        flows.apply();
    }
}

#endif
