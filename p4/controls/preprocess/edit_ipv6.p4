// Rewrites the addresses of both IPv6 headers with one table, and computes the change of checksums.
#ifndef ACAPELLA_EDIT_IPV6_P4
#define ACAPELLA_EDIT_IPV6_P4

control EditIpv6(inout headers_t hdr, inout metadata_t meta) {
    @name("keep") action keep() {
    }

    @name("blank") action blank() {
        hdr.edit.high = 0;
        hdr.edit.low = 0;
    }

    // Keeps the bits in the mask, and sets the bits in the value.
    @name("rewrite") action rewrite(bit<64> mask_high, bit<64> mask_low, bit<64> value_high, bit<64> value_low) {
        hdr.edit.high = hdr.edit.high & mask_high;
        hdr.edit.low = hdr.edit.low & mask_low;
        hdr.edit.high = hdr.edit.high | value_high;
        hdr.edit.low = hdr.edit.low | value_low;
    }

    @name("addresses") table addresses {
        key = {
            hdr.edit.high: ternary;
            hdr.edit.low: ternary;
        }
        actions = {
            keep;
            blank;
            rewrite;
        }
        default_action = keep();
        size = ADDRESS_ENTRIES;
    }

    // ~old + new, in words of 32 bits.
    action add_change() {
        hdr.edit.old_high = hdr.edit.old_high ^ 0xffffffffffffffff;
        hdr.edit.old_low = hdr.edit.old_low ^ 0xffffffffffffffff;
        hdr.edit.change = hdr.edit.old_high >> 32;
        hdr.edit.sum = hdr.edit.sum + hdr.edit.change;
        hdr.edit.change = hdr.edit.old_high & 0xffffffff;
        hdr.edit.sum = hdr.edit.sum + hdr.edit.change;
        hdr.edit.change = hdr.edit.old_low >> 32;
        hdr.edit.sum = hdr.edit.sum + hdr.edit.change;
        hdr.edit.change = hdr.edit.old_low & 0xffffffff;
        hdr.edit.sum = hdr.edit.sum + hdr.edit.change;
        hdr.edit.change = hdr.edit.high >> 32;
        hdr.edit.sum = hdr.edit.sum + hdr.edit.change;
        hdr.edit.change = hdr.edit.high & 0xffffffff;
        hdr.edit.sum = hdr.edit.sum + hdr.edit.change;
        hdr.edit.change = hdr.edit.low >> 32;
        hdr.edit.sum = hdr.edit.sum + hdr.edit.change;
        hdr.edit.change = hdr.edit.low & 0xffffffff;
        hdr.edit.sum = hdr.edit.sum + hdr.edit.change;
    }

    apply {
#define IPV6 outer_ipv6
#define WHICH INNERMOST_OUTER
#include "controls/preprocess/level/ipv6.p4"
#undef WHICH
#undef IPV6

#define IPV6 inner_ipv6
#define WHICH INNERMOST_INNER
#include "controls/preprocess/level/ipv6.p4"
#undef WHICH
#undef IPV6
    }
}

#endif
