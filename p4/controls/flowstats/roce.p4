// Ethernet, IPv4 and UDP headers of a report. Lengths include the 4 bytes of the ICRC, which the loader appends.
control Roce(inout headers_t hdr, inout metadata_t meta) {
    apply {
        hdr.report_ethernet.setValid();
        hdr.work.sum = report_dst_mac.read(0);
        hdr.report_ethernet.dst = (bit<48>)hdr.work.sum;
        hdr.work.sum = report_src_mac.read(0);
        hdr.report_ethernet.src = (bit<48>)hdr.work.sum;
        hdr.report_ethernet.type = 0x0800;

        hdr.report_ipv4.setValid();
        hdr.report_ipv4.version_ihl = 0x45;
        hdr.report_ipv4.tos = 0;
        meta.index = meta.report_bytes + 60;  // IPv4 20, UDP 8, BTH 12, RETH 16, ICRC 4
        hdr.report_ipv4.total_length = (bit<16>)meta.index;
        hdr.report_ipv4.identification = 0;
        hdr.report_ipv4.flags_offset = 0x4000;
        hdr.report_ipv4.ttl = 64;
        hdr.report_ipv4.protocol = 17;
        hdr.report_ipv4.src = report_src_ip.read(0);
        hdr.report_ipv4.dst = report_dst_ip.read(0);

        // RFC 1071: 0x4500 + 0x4000 + 0x4011, the length, the addresses.
        meta.index = meta.index + 0xc511;
        hdr.work.other = hdr.report_ipv4.src >> 16;
        meta.index = meta.index + hdr.work.other;
        hdr.work.other = hdr.report_ipv4.src & 0xffff;
        meta.index = meta.index + hdr.work.other;
        hdr.work.other = hdr.report_ipv4.dst >> 16;
        meta.index = meta.index + hdr.work.other;
        hdr.work.other = hdr.report_ipv4.dst & 0xffff;
        meta.index = meta.index + hdr.work.other;
        hdr.work.other = meta.index >> 16;
        meta.index = meta.index & 0xffff;
        meta.index = meta.index + hdr.work.other;
        hdr.work.other = meta.index >> 16;
        meta.index = meta.index + hdr.work.other;
        meta.index = meta.index ^ 0xffff;
        hdr.report_ipv4.checksum = (bit<16>)meta.index;

        hdr.report_udp.setValid();
        meta.pair = meta.pair + 0xc000;  // a dynamic port per queue pair, so that its packets take the same path
        hdr.report_udp.src_port = (bit<16>)meta.pair;
        hdr.report_udp.dst_port = 4791;
        meta.index = meta.report_bytes + 40;
        hdr.report_udp.length = (bit<16>)meta.index;
        hdr.report_udp.checksum = 0;
    }
}
