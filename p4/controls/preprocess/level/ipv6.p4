// Rewrites the addresses of header IPV6 of level WHICH. After a routing header with segments left, the transport
// checksum covers the final destination (RFC 8200 section 8.1), so a change of this destination does not affect the
// checksum.
        if (hdr.IPV6.isValid()) {
            hdr.edit.sum = 0;
            hdr.edit.high = hdr.IPV6.src_high;
            hdr.edit.low = hdr.IPV6.src_low;
            hdr.edit.old_high = hdr.IPV6.src_high;
            hdr.edit.old_low = hdr.IPV6.src_low;
            addresses.apply();
            hdr.IPV6.src_high = hdr.edit.high;
            hdr.IPV6.src_low = hdr.edit.low;
            if (hdr.edit.high != hdr.edit.old_high) {
                add_change();
            } else {
                if (hdr.edit.low != hdr.edit.old_low) {
                    add_change();
                }
            }
            hdr.edit.high = hdr.IPV6.dst_high;
            hdr.edit.low = hdr.IPV6.dst_low;
            hdr.edit.old_high = hdr.IPV6.dst_high;
            hdr.edit.old_low = hdr.IPV6.dst_low;
            addresses.apply();
            hdr.IPV6.dst_high = hdr.edit.high;
            hdr.IPV6.dst_low = hdr.edit.low;
            if (meta.routed == 0) {
                if (hdr.edit.high != hdr.edit.old_high) {
                    add_change();
                } else {
                    if (hdr.edit.low != hdr.edit.old_low) {
                        add_change();
                    }
                }
            }
            if (meta.innermost == WHICH) {
                hdr.edit.transport_sum = hdr.edit.sum;
            }
        }
