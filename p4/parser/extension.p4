// States for protocol number meta.next after NUMBER extension headers, and for extension header number EXTENSION in
// header HEADER (RFC 8200 section 4, RFC 4302 section 2).
    state AT(JOIN(upper, NUMBER)) {
        transition select(meta.next) {
            0: AT(JOIN(extension, EXTENSION));
            43: AT(JOIN(extension, EXTENSION));
            44: AT(JOIN(extension, EXTENSION));
            51: AT(JOIN(extension, EXTENSION));
            60: AT(JOIN(extension, EXTENSION));
            default: AT(upper);
        }
    }

    state AT(JOIN(extension, EXTENSION)) {
        meta.need = meta.parsed + 8;
        meta.room = meta.end - meta.need;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: AT(JOIN(extension_kind, EXTENSION));
            default: cut;
        }
    }

    state AT(JOIN(extension_kind, EXTENSION)) {
        hdr.peek = pkt.lookahead<peek_h>();
        meta.size = (bit<32>)hdr.peek.second;
        transition select(meta.next) {
            43: AT(JOIN(extension_routing, EXTENSION));
            44: AT(JOIN(extension_fragment, EXTENSION));
            51: AT(JOIN(extension_authentication, EXTENSION));
            default: AT(JOIN(extension_octets, EXTENSION));
        }
    }

    state AT(JOIN(extension_routing, EXTENSION)) {
        meta.type = hdr.peek.third & 0xff;  // segments left
        transition select(meta.type) {
            0: AT(JOIN(extension_octets, EXTENSION));
            default: AT(JOIN(extension_routed, EXTENSION));
        }
    }

    state AT(JOIN(extension_routed, EXTENSION)) {
        meta.routed = 1;
        transition AT(JOIN(extension_octets, EXTENSION));
    }

    state AT(JOIN(extension_octets, EXTENSION)) {
        meta.size = meta.size + 1;
        meta.size = meta.size << 3;
        transition AT(JOIN(extension_there, EXTENSION));
    }

    state AT(JOIN(extension_authentication, EXTENSION)) {
        meta.size = meta.size + 2;
        meta.size = meta.size << 2;
        meta.room = meta.size - 12;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: AT(JOIN(extension_there, EXTENSION));
            default: bad;
        }
    }

    state AT(JOIN(extension_fragment, EXTENSION)) {
        meta.size = 8;
        meta.fragment = FRAGMENT_FIRST;
        meta.type = hdr.peek.third >> 3;  // offset, RFC 8200 section 4.5
        transition select(meta.type) {
            0: AT(JOIN(extension_there, EXTENSION));
            default: AT(JOIN(extension_later_fragment, EXTENSION));
        }
    }

    state AT(JOIN(extension_later_fragment, EXTENSION)) {
        meta.fragment = FRAGMENT_LATER;
        transition AT(JOIN(extension_there, EXTENSION));
    }

    state AT(JOIN(extension_there, EXTENSION)) {
        meta.need = meta.parsed + meta.size;
        meta.room = meta.end - meta.need;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: AT(JOIN(whole_extension, EXTENSION));
            default: AT(JOIN(cut_extension, EXTENSION));
        }
    }

    // If the next header is "no next header" (59, RFC 8200 section 4.7), it becomes the protocol although this
    // extension header is truncated, as in the digest and in tshark.
    state AT(JOIN(cut_extension, EXTENSION)) {
        meta.bits = (bit<32>)hdr.peek.first;
        transition select(meta.bits) {
            59: AT(JOIN(last_extension, EXTENSION));
            default: cut;
        }
    }

    state AT(JOIN(last_extension, EXTENSION)) {
        hdr.flow.ip_proto = hdr.peek.first;
        transition cut;
    }

    state AT(JOIN(whole_extension, EXTENSION)) {
        meta.bits = meta.size - 2;
        meta.bits = meta.bits << 3;
        pkt.extract(hdr.AT(HEADER), meta.bits);
        meta.parsed = meta.need;
        meta.next = hdr.AT(HEADER).next;
        hdr.flow.ip_proto = meta.next;
        transition select(meta.fragment) {
            FRAGMENT_LATER: later_fragment;
            default: AT(JOIN(upper, EXTENSION));
        }
    }
