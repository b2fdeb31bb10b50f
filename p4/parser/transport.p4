// TCP (RFC 9293), UDP (RFC 768), ICMP (RFC 792) and ICMPv6 (RFC 4443). Ports are valid if the first four bytes of the
// header were captured.
    state later_fragment {
        meta.fragment = FRAGMENT_LATER;
        meta.parse_end = END_FRAGMENT;
        transition accept;
    }

    state tcp_ports {
        meta.need = meta.parsed + 4;
        meta.room = meta.end - meta.need;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: tcp_endpoints;
            default: cut;
        }
    }

    state tcp_endpoints {
        hdr.ports = pkt.lookahead<ports_h>();
        hdr.flow.src_port = hdr.ports.src;
        hdr.flow.dst_port = hdr.ports.dst;
        meta.need = meta.parsed + 20;
        meta.room = meta.end - meta.need;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: tcp;
            default: cut;
        }
    }

    state tcp {
        pkt.extract(hdr.tcp);
        meta.size = (bit<32>)hdr.tcp.data_offset;
        meta.size = meta.size >> 4;
        meta.size = meta.size << 2;
        meta.room = meta.size - 20;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: tcp_length;
            default: bad_tcp;
        }
    }

    state bad_tcp {
        meta.parsed = meta.need;
        meta.parse_end = END_BAD;
        transition accept;
    }

    state tcp_length {
        meta.bits = meta.parsed + meta.size;
        meta.parsed = meta.need;
        meta.room = meta.wire_end - meta.bits;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: tcp_payload;
            default: bad;
        }
    }

    state tcp_payload {
        meta.transport = 6;
        meta.payload_length = meta.wire_end - meta.bits;
        meta.room = meta.end - meta.bits;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: tcp_options;
            default: cut;
        }
    }

    state tcp_options {
        meta.parsed = meta.bits;
        transition accept;
    }

    state udp_ports {
        meta.need = meta.parsed + 4;
        meta.room = meta.end - meta.need;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: udp_endpoints;
            default: cut;
        }
    }

    state udp_endpoints {
        hdr.ports = pkt.lookahead<ports_h>();
        hdr.flow.src_port = hdr.ports.src;
        hdr.flow.dst_port = hdr.ports.dst;
        meta.need = meta.parsed + 8;
        meta.room = meta.end - meta.need;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: udp;
            default: cut;
        }
    }

    state udp {
        pkt.extract(hdr.udp);
        meta.bits = meta.parsed;  // offset of the header
        meta.parsed = meta.need;
        meta.size = (bit<32>)hdr.udp.length;
        meta.room = meta.size - 8;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: udp_length;
            default: bad;
        }
    }

    // The first fragment of a datagram is shorter than its length field.
    state udp_length {
        meta.transport = 17;
        meta.payload_length = meta.size - 8;
        meta.bits = meta.bits + meta.size;
        meta.room = meta.wire_end - meta.bits;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: accept;
            default: udp_fragment;
        }
    }

    state udp_fragment {
        meta.payload_length = meta.wire_end - meta.need;
        transition accept;
    }

    state icmp {
        meta.need = meta.parsed + 8;
        meta.room = meta.end - meta.need;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: whole_icmp;
            default: cut;
        }
    }

    state whole_icmp {
        pkt.extract(hdr.icmp);
        meta.parsed = meta.need;
        meta.transport = meta.next;
        meta.payload_length = meta.wire_end - meta.need;
        transition accept;
    }
