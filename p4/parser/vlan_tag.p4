// States for an EtherType after NUMBER tags, and for tag number TAG in header HEADER.
    state JOIN(LEVEL, JOIN(type, NUMBER)) {
        transition select(meta.type) {
            0x8100: JOIN(LEVEL, JOIN(tag, TAG));
            0x88a8: JOIN(LEVEL, JOIN(tag, TAG));
            0x9100: JOIN(LEVEL, JOIN(tag, TAG));
            0x0800: outer_ipv4_or_6;
            0x86dd: outer_ipv6_only;
            0x8847: MPLS;
            0x8848: MPLS;
            default: other;
        }
    }

    state JOIN(LEVEL, JOIN(tag, TAG)) {
        meta.need = meta.parsed + 4;
        meta.room = meta.end - meta.need;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: JOIN(LEVEL, JOIN(whole_tag, TAG));
            default: cut;
        }
    }

    state JOIN(LEVEL, JOIN(whole_tag, TAG)) {
        pkt.extract(hdr.JOIN(LEVEL, HEADER));
        meta.parsed = meta.need;
        meta.type = hdr.JOIN(LEVEL, HEADER).tci & 0x0fff;
        hdr.flow.vlans = hdr.flow.vlans << 16;
        hdr.flow.vlans = hdr.flow.vlans | (bit<64>)meta.type;
        hdr.flow.vlan_count = hdr.flow.vlan_count + 1;
        meta.type = hdr.JOIN(LEVEL, HEADER).type;
        transition JOIN(LEVEL, JOIN(type, TAG));
    }
