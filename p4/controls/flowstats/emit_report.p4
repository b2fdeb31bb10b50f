// Emits the loader's header, and the report if there is one.
control EmitReport(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr.egress);
        pkt.emit(hdr.report_ethernet);
        pkt.emit(hdr.report_ipv4);
        pkt.emit(hdr.report_udp);
        pkt.emit(hdr.bth);
        pkt.emit(hdr.reth);
        pkt.emit(hdr.report_1);
        pkt.emit(hdr.report_2);
    }
}
