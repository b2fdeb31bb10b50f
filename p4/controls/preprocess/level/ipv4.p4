// Rewrites the addresses of header IPV4 of level WHICH; stores the change of their sum in SUM.
        if (hdr.IPV4.isValid()) {
            hdr.edit.sum = 0;
            hdr.edit.ipv4 = hdr.IPV4.src;
            hdr.edit.old_ipv4 = hdr.IPV4.src;
            addresses.apply();
            if (hdr.edit.ipv4 != hdr.edit.old_ipv4) {
                add_change();
            }
            hdr.IPV4.src = hdr.edit.ipv4;
            hdr.edit.ipv4 = hdr.IPV4.dst;
            hdr.edit.old_ipv4 = hdr.IPV4.dst;
            addresses.apply();
            if (hdr.edit.ipv4 != hdr.edit.old_ipv4) {
                add_change();
            }
            hdr.IPV4.dst = hdr.edit.ipv4;
            hdr.edit.SUM = hdr.edit.sum;
            if (meta.innermost == WHICH) {
                hdr.edit.transport_sum = hdr.edit.sum;
            }
        }
