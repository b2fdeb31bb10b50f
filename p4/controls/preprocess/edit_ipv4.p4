// Rewrites the addresses of both IPv4 headers with one table, and computes the change of checksums.
#ifndef ACAPELLA_EDIT_IPV4_P4
#define ACAPELLA_EDIT_IPV4_P4

control EditIpv4(inout headers_t hdr, inout metadata_t meta) {
    @name("keep") action keep() {
    }

    @name("blank") action blank() {
        hdr.edit.ipv4 = 0;
    }

    // Keeps the bits in `mask`, and sets the bits in `value`.
    @name("rewrite") action rewrite(bit<32> mask, bit<32> value) {
        hdr.edit.ipv4 = hdr.edit.ipv4 & mask;
        hdr.edit.ipv4 = hdr.edit.ipv4 | value;
    }

    @name("addresses") table addresses {
        key = {
            hdr.edit.ipv4: ternary;
        }
        actions = {
            keep;
            blank;
            rewrite;
        }
        default_action = keep();
        size = ADDRESS_ENTRIES;
    }

    // ~old + new
    action add_change() {
        hdr.edit.old_ipv4 = hdr.edit.old_ipv4 ^ 0xffffffff;
        hdr.edit.sum = hdr.edit.sum + (bit<64>)hdr.edit.old_ipv4;
        hdr.edit.sum = hdr.edit.sum + (bit<64>)hdr.edit.ipv4;
    }

    apply {
#define IPV4 outer_ipv4
#define WHICH INNERMOST_OUTER
#define SUM outer_sum
#include "controls/preprocess/level/ipv4.p4"
#undef SUM
#undef WHICH
#undef IPV4

#define IPV4 inner_ipv4
#define WHICH INNERMOST_INNER
#define SUM inner_sum
#include "controls/preprocess/level/ipv4.p4"
#undef SUM
#undef WHICH
#undef IPV4
    }
}

#endif
