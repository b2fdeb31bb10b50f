// Rewrites the MAC addresses of the frame, and of an Ethernet frame in a pseudowire, with one table.
#ifndef ACAPELLA_EDIT_MACS_P4
#define ACAPELLA_EDIT_MACS_P4

control EditMacs(inout headers_t hdr, inout metadata_t meta) {
    @name("keep") action keep() {
    }

    @name("blank") action blank() {
        hdr.edit.mac = 0;
    }

    // Keeps the bits in `mask`, and sets the bits in `value`: a mask of ff:ff:ff:00:00:00 keeps the OUI.
    @name("rewrite") action rewrite(bit<48> mask, bit<48> value) {
        hdr.edit.mac = hdr.edit.mac & mask;
        hdr.edit.mac = hdr.edit.mac | value;
    }

    @name("addresses") table addresses {
        key = {
            hdr.edit.mac: ternary;
        }
        actions = {
            keep;
            blank;
            rewrite;
        }
        default_action = keep();
        size = ADDRESS_ENTRIES;
    }

    apply {
        if (hdr.ethernet.isValid()) {
            hdr.edit.mac = hdr.ethernet.dst;
            addresses.apply();
            hdr.ethernet.dst = hdr.edit.mac;
            hdr.edit.mac = hdr.ethernet.src;
            addresses.apply();
            hdr.ethernet.src = hdr.edit.mac;
        }
        if (hdr.inner_ethernet.isValid()) {
            hdr.edit.mac = hdr.inner_ethernet.dst;
            addresses.apply();
            hdr.inner_ethernet.dst = hdr.edit.mac;
            hdr.edit.mac = hdr.inner_ethernet.src;
            addresses.apply();
            hdr.inner_ethernet.src = hdr.edit.mac;
        }
    }
}

#endif
