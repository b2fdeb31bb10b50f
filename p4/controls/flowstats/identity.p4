// The keys of the flow and of the reverse flow, and a 64-bit digest of each.
//
// The digest excludes MPLS labels, because those of the other direction are unknown. A CRC is affine and jhash is not,
// so keys that collide in one of them do not necessarily collide in the other.
control Identity(inout headers_t hdr, inout metadata_t meta) {
    // p4/compile replaces the hash function with CRC-32C for fields named *_crc; the other hash is jhash.
    Hash<bit<32>>(PNA_HashAlgorithm_t.TARGET_DEFAULT) crc;
    Hash<bit<32>>(PNA_HashAlgorithm_t.TARGET_DEFAULT) jhash;

    apply {
        if (meta.transport == 1 || meta.transport == 58) {
            hdr.flow.src_port = (bit<16>)hdr.icmp.type << 8;
            hdr.flow.src_port = hdr.flow.src_port | (bit<16>)hdr.icmp.code;
            if (hdr.icmp.type == 128 || hdr.icmp.type == 129 || hdr.icmp.type == 8 || hdr.icmp.type == 0) {
                hdr.flow.dst_port = hdr.icmp.identifier;
            }
        }
        hdr.own.setValid();
        hdr.own.src_high = hdr.flow.src_high;
        hdr.own.src_low = hdr.flow.src_low;
        hdr.own.dst_high = hdr.flow.dst_high;
        hdr.own.dst_low = hdr.flow.dst_low;
        hdr.own.src_port = hdr.flow.src_port;
        hdr.own.dst_port = hdr.flow.dst_port;
        hdr.own.ip_version = hdr.flow.ip_version;
        hdr.own.ip_proto = hdr.flow.ip_proto;
        hdr.own.vlan_count = hdr.flow.vlan_count;
        hdr.own.reserved = 0;
        hdr.own.vlans = hdr.flow.vlans;
        meta.own_crc = crc.get_hash(hdr.own);
        meta.own_jhash = jhash.get_hash(hdr.own);
        hdr.work.setValid();
        hdr.work.fingerprint = (bit<64>)meta.own_crc;
        hdr.work.fingerprint = hdr.work.fingerprint << 32;
        hdr.work.fingerprint = hdr.work.fingerprint | (bit<64>)meta.own_jhash;
        meta.mask = slot_mask.read(0);

        hdr.row.setValid();
        hdr.row.crc = meta.own_crc;
        hdr.row.jhash = meta.own_jhash;
        hdr.row.labels = 0;
        hdr.row.label_4 = 0;
        if (hdr.flow.mpls_count != 0) {
            hdr.row.labels = (bit<64>)hdr.flow.label_1;
            hdr.row.labels = hdr.row.labels << 20;
            hdr.row.labels = hdr.row.labels | (bit<64>)hdr.flow.label_2;
            hdr.row.labels = hdr.row.labels << 20;
            hdr.row.labels = hdr.row.labels | (bit<64>)hdr.flow.label_3;
            hdr.row.labels = hdr.row.labels << 4;
            hdr.row.labels = hdr.row.labels | (bit<64>)hdr.flow.mpls_count;
            hdr.row.label_4 = hdr.flow.label_4;
        }
        hdr.work.labels = hdr.row.labels;
        hdr.work.label_4 = hdr.row.label_4;

        if (meta.transport == 6) {
            hdr.peer.setValid();
            hdr.peer.src_high = hdr.flow.dst_high;
            hdr.peer.src_low = hdr.flow.dst_low;
            hdr.peer.dst_high = hdr.flow.src_high;
            hdr.peer.dst_low = hdr.flow.src_low;
            hdr.peer.src_port = hdr.flow.dst_port;
            hdr.peer.dst_port = hdr.flow.src_port;
            hdr.peer.ip_version = hdr.flow.ip_version;
            hdr.peer.ip_proto = hdr.flow.ip_proto;
            hdr.peer.vlan_count = hdr.flow.vlan_count;
            hdr.peer.reserved = 0;
            hdr.peer.vlans = hdr.flow.vlans;
            meta.peer_crc = crc.get_hash(hdr.peer);
            meta.peer_jhash = jhash.get_hash(hdr.peer);
            hdr.work.peer_fingerprint = (bit<64>)meta.peer_crc;
            hdr.work.peer_fingerprint = hdr.work.peer_fingerprint << 32;
            hdr.work.peer_fingerprint = hdr.work.peer_fingerprint | (bit<64>)meta.peer_jhash;
        }
    }
}
