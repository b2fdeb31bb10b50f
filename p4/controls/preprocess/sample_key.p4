// Sets hdr.sample_flow, which is the same for both directions of a flow, and hdr.sample_packet. Neither depends on
// where the packet is captured.
#ifndef ACAPELLA_SAMPLE_KEY_P4
#define ACAPELLA_SAMPLE_KEY_P4

control SampleKey(inout headers_t hdr, inout metadata_t meta) {
    action endpoints() {
        hdr.sample_flow.low_high = hdr.flow.src_high;
        hdr.sample_flow.low_low = hdr.flow.src_low;
        hdr.sample_flow.high_high = hdr.flow.dst_high;
        hdr.sample_flow.high_low = hdr.flow.dst_low;
        hdr.sample_flow.low_port = hdr.flow.src_port;
        hdr.sample_flow.high_port = hdr.flow.dst_port;
        hdr.sample_flow.ip_version = hdr.flow.ip_version;
        hdr.sample_flow.ip_proto = hdr.flow.ip_proto;
        hdr.sample_flow.type = 0;
    }

    // Without IP, the innermost MAC addresses are the endpoints.
    action outer_macs() {
        hdr.sample_flow.low_low = (bit<64>)hdr.ethernet.src;
        hdr.sample_flow.high_low = (bit<64>)hdr.ethernet.dst;
        hdr.sample_flow.type = hdr.ethernet.type;
    }

    action inner_macs() {
        hdr.sample_flow.low_low = (bit<64>)hdr.inner_ethernet.src;
        hdr.sample_flow.high_low = (bit<64>)hdr.inner_ethernet.dst;
        hdr.sample_flow.type = hdr.inner_ethernet.type;
    }

    action swap() {
        hdr.edit.high = hdr.sample_flow.low_high;
        hdr.edit.low = hdr.sample_flow.low_low;
        meta.type = hdr.sample_flow.low_port;
        hdr.sample_flow.low_high = hdr.sample_flow.high_high;
        hdr.sample_flow.low_low = hdr.sample_flow.high_low;
        hdr.sample_flow.low_port = hdr.sample_flow.high_port;
        hdr.sample_flow.high_high = hdr.edit.high;
        hdr.sample_flow.high_low = hdr.edit.low;
        hdr.sample_flow.high_port = meta.type;
    }

    action packet() {
        hdr.sample_packet.identification = 0;
        hdr.sample_packet.length = meta.ip_length;
        hdr.sample_packet.word_1 = 0;
        hdr.sample_packet.word_2 = 0;
        hdr.sample_packet.word_3 = 0;
    }

    action ipv4(bit<16> identification, bit<16> flags_offset) {
        meta.size = (bit<32>)identification;
        meta.size = meta.size << 16;
        meta.bits = (bit<32>)flags_offset;
        meta.size = meta.size | meta.bits;
        hdr.sample_packet.identification = meta.size;
    }

    action tcp() {
        hdr.sample_packet.word_1 = hdr.tcp.seq;
        hdr.sample_packet.word_2 = hdr.tcp.ack;
        meta.size = (bit<32>)hdr.tcp.checksum;
        meta.size = meta.size << 16;
        meta.bits = (bit<32>)hdr.tcp.window;
        meta.size = meta.size | meta.bits;
        hdr.sample_packet.word_3 = meta.size;
    }

    action udp() {
        meta.size = (bit<32>)hdr.udp.length;
        meta.size = meta.size << 16;
        meta.bits = (bit<32>)hdr.udp.checksum;
        meta.size = meta.size | meta.bits;
        hdr.sample_packet.word_1 = meta.size;
    }

    action icmp() {
        meta.size = (bit<32>)hdr.icmp.type;
        meta.size = meta.size << 8;
        meta.bits = (bit<32>)hdr.icmp.code;
        meta.size = meta.size | meta.bits;
        meta.size = meta.size << 16;
        meta.bits = (bit<32>)hdr.icmp.checksum;
        meta.size = meta.size | meta.bits;
        hdr.sample_packet.word_1 = meta.size;
        meta.size = (bit<32>)hdr.icmp.identifier;
        meta.size = meta.size << 16;
        meta.bits = (bit<32>)hdr.icmp.sequence;
        meta.size = meta.size | meta.bits;
        hdr.sample_packet.word_2 = meta.size;
    }

    // Comparisons are nested: p4c-dpdk miscompiles < and > inside &&.
    apply {
        hdr.sample_flow.setValid();
        hdr.sample_packet.setValid();
        endpoints();
        if (hdr.flow.ip_version == 0) {
            if (hdr.inner_ethernet.isValid()) {
                inner_macs();
            } else {
                if (hdr.ethernet.isValid()) {
                    outer_macs();
                }
            }
        }
        if (meta.fragment != FRAGMENT_NONE) {
            hdr.sample_flow.low_port = 0;
            hdr.sample_flow.high_port = 0;
        }

        meta.swapped = 0;
        if (hdr.sample_flow.low_high > hdr.sample_flow.high_high) {
            meta.swapped = 1;
        } else {
            if (hdr.sample_flow.low_high == hdr.sample_flow.high_high) {
                if (hdr.sample_flow.low_low > hdr.sample_flow.high_low) {
                    meta.swapped = 1;
                } else {
                    if (hdr.sample_flow.low_low == hdr.sample_flow.high_low) {
                        if (hdr.sample_flow.low_port > hdr.sample_flow.high_port) {
                            meta.swapped = 1;
                        }
                    }
                }
            }
        }
        if (meta.swapped != 0) {
            swap();
        }

        packet();
        hdr.sample_packet.swapped = meta.swapped;
        if (meta.innermost == INNERMOST_OUTER) {
            if (hdr.outer_ipv4.isValid()) {
                ipv4(hdr.outer_ipv4.identification, hdr.outer_ipv4.flags_offset);
            } else {
                hdr.sample_packet.identification = hdr.outer_ipv6.version_class_label & 0xfffff;
            }
        }
        if (meta.innermost == INNERMOST_INNER) {
            if (hdr.inner_ipv4.isValid()) {
                ipv4(hdr.inner_ipv4.identification, hdr.inner_ipv4.flags_offset);
            } else {
                hdr.sample_packet.identification = hdr.inner_ipv6.version_class_label & 0xfffff;
            }
        }
        if (hdr.tcp.isValid()) {
            tcp();
        }
        if (hdr.udp.isValid()) {
            udp();
        }
        if (hdr.icmp.isValid()) {
            icmp();
        }
    }
}

#endif
