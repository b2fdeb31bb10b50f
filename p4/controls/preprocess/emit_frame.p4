// Emits the parsed headers in wire order; absent headers are not valid and therefore not emitted.
#ifndef ACAPELLA_EMIT_FRAME_P4
#define ACAPELLA_EMIT_FRAME_P4

control EmitFrame(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr.ethernet);
        pkt.emit(hdr.outer_vlan_1);
        pkt.emit(hdr.outer_vlan_2);
        pkt.emit(hdr.outer_vlan_3);
        pkt.emit(hdr.outer_vlan_4);
        pkt.emit(hdr.mpls_1);
        pkt.emit(hdr.mpls_2);
        pkt.emit(hdr.mpls_3);
        pkt.emit(hdr.mpls_4);
        pkt.emit(hdr.control_word);
        pkt.emit(hdr.inner_ethernet);
        pkt.emit(hdr.inner_vlan_1);
        pkt.emit(hdr.inner_vlan_2);
        pkt.emit(hdr.inner_vlan_3);
        pkt.emit(hdr.inner_vlan_4);
        pkt.emit(hdr.outer_ipv4);
        pkt.emit(hdr.outer_ipv4_options);
        pkt.emit(hdr.outer_ipv6);
        pkt.emit(hdr.outer_extension_1);
        pkt.emit(hdr.outer_extension_2);
        pkt.emit(hdr.outer_extension_3);
        pkt.emit(hdr.outer_extension_4);
        pkt.emit(hdr.inner_ipv4);
        pkt.emit(hdr.inner_ipv4_options);
        pkt.emit(hdr.inner_ipv6);
        pkt.emit(hdr.inner_extension_1);
        pkt.emit(hdr.inner_extension_2);
        pkt.emit(hdr.inner_extension_3);
        pkt.emit(hdr.inner_extension_4);
        pkt.emit(hdr.tcp);
        pkt.emit(hdr.udp);
        pkt.emit(hdr.icmp);
    }
}

#endif
