// Updates the checksums of IPv4, TCP, UDP and ICMPv6 incrementally for changed addresses (RFC 1624, eqn. 3): a correct
// checksum remains correct, and an incorrect checksum remains incorrect. In UDP, zero means no checksum, and a computed
// zero is sent as all ones (RFC 768).
#ifndef ACAPELLA_EDIT_CHECKSUMS_P4
#define ACAPELLA_EDIT_CHECKSUMS_P4

control EditChecksums(inout headers_t hdr, inout metadata_t meta) {
    // hdr.edit.checksum becomes ~(~checksum + sum), folded to 16 bits. The sum is below 2^48.
    @name("update") action update() {
        hdr.edit.checksum = hdr.edit.checksum ^ 0xffff;
        hdr.edit.change = hdr.edit.sum + (bit<64>)hdr.edit.checksum;
        hdr.edit.carry = hdr.edit.change >> 16;
        hdr.edit.change = hdr.edit.change & 0xffff;
        hdr.edit.change = hdr.edit.change + hdr.edit.carry;
        hdr.edit.carry = hdr.edit.change >> 16;
        hdr.edit.change = hdr.edit.change & 0xffff;
        hdr.edit.change = hdr.edit.change + hdr.edit.carry;
        hdr.edit.carry = hdr.edit.change >> 16;
        hdr.edit.change = hdr.edit.change & 0xffff;
        hdr.edit.change = hdr.edit.change + hdr.edit.carry;
        hdr.edit.checksum = hdr.edit.change[15:0];
        hdr.edit.checksum = hdr.edit.checksum ^ 0xffff;
    }

    // A table without a key is used as a subroutine, because if the code were inlined, each conversion to 16 bits would
    // take 16 bytes of metadata.
    @name("checksum") table checksum {
        actions = {
            update;
        }
        default_action = update();
    }

    apply {
        hdr.edit.sum = hdr.edit.outer_sum;
        if (hdr.edit.sum != 0) {
            hdr.edit.checksum = hdr.outer_ipv4.checksum;
            checksum.apply();
            hdr.outer_ipv4.checksum = hdr.edit.checksum;
        }
        hdr.edit.sum = hdr.edit.inner_sum;
        if (hdr.edit.sum != 0) {
            hdr.edit.checksum = hdr.inner_ipv4.checksum;
            checksum.apply();
            hdr.inner_ipv4.checksum = hdr.edit.checksum;
        }
        hdr.edit.sum = hdr.edit.transport_sum;
        if (hdr.edit.sum != 0) {
            if (hdr.tcp.isValid()) {
                hdr.edit.checksum = hdr.tcp.checksum;
                checksum.apply();
                hdr.tcp.checksum = hdr.edit.checksum;
            }
            if (hdr.udp.isValid()) {
                if (hdr.udp.checksum != 0) {
                    hdr.edit.checksum = hdr.udp.checksum;
                    checksum.apply();
                    if (hdr.edit.checksum == 0) {
                        hdr.edit.checksum = 0xffff;
                    }
                    hdr.udp.checksum = hdr.edit.checksum;
                }
            }
            if (hdr.icmp.isValid()) {
                if (hdr.flow.ip_version == 6) {
                    if (hdr.flow.ip_proto == 58) {
                        hdr.edit.checksum = hdr.icmp.checksum;
                        checksum.apply();
                        hdr.icmp.checksum = hdr.edit.checksum;
                    }
                }
            }
        }
    }
}

#endif
