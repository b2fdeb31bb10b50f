// The payload of a label stack; the bottom label is in meta.size. No field identifies the payload except its first four
// bits (RFC 4928 section 3, RFC 4385 section 3): 4 and 6 are IP, 0 is an Ethernet pseudowire. Labels 13 (RFC 5586) and
// 14 (RFC 3429) are used for management.
    state mpls_bottom {
        transition select(meta.size) {
            13: other;
            14: other;
            default: behind_labels;
        }
    }

    state behind_labels {
        meta.need = meta.parsed + 1;
        meta.room = meta.end - meta.need;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: behind_labels_peek;
            default: cut;
        }
    }

    state behind_labels_peek {
        hdr.peek = pkt.lookahead<peek_h>();
        meta.next = hdr.peek.first >> 4;
        transition select(meta.next) {
            4: outer_ipv4_or_6;
            6: outer_ipv6_only;
            0: pseudowire;
            default: other;
        }
    }

    // Detects a control word (RFC 4448 section 4.6). There is none if a plausible Ethernet header starts here, unless
    // the first word is zero and a plausible Ethernet header also follows it.
    state pseudowire {
        hdr.pseudowire = pkt.lookahead<pseudowire_peek_h>();
        transition select(hdr.pseudowire.plain_type) {
            0x0800: plain_ipv4;
            0x86dd: plain_ipv6;
            0x0806: plain_arp;
            0x8100: plain;
            0x88a8: plain;
            0x9100: plain;
            0x8847: plain;
            0x8848: plain;
            0x8809: plain;
            0x8863: plain;
            0x8864: plain;
            0x888e: plain;
            0x88cc: plain;
            0x88f7: plain;
            default: control_word;
        }
    }

    state plain_ipv4 {
        meta.type = hdr.pseudowire.plain_first >> 12;
        transition select(meta.type) {
            4: plain;
            default: control_word;
        }
    }

    state plain_ipv6 {
        meta.type = hdr.pseudowire.plain_first >> 12;
        transition select(meta.type) {
            6: plain;
            default: control_word;
        }
    }

    state plain_arp {
        transition select(hdr.pseudowire.plain_first) {
            1: plain;
            default: control_word;
        }
    }

    state plain {
        transition select(hdr.pseudowire.word) {
            0: worded;
            default: inner_ethernet;
        }
    }

    state worded {
        transition select(hdr.pseudowire.worded_type) {
            0x0800: worded_ipv4;
            0x86dd: worded_ipv6;
            0x0806: worded_arp;
            0x8100: control_word;
            0x88a8: control_word;
            0x9100: control_word;
            0x8847: control_word;
            0x8848: control_word;
            0x8809: control_word;
            0x8863: control_word;
            0x8864: control_word;
            0x888e: control_word;
            0x88cc: control_word;
            0x88f7: control_word;
            default: inner_ethernet;
        }
    }

    state worded_ipv4 {
        meta.type = hdr.pseudowire.worded_first >> 12;
        transition select(meta.type) {
            4: control_word;
            default: inner_ethernet;
        }
    }

    state worded_ipv6 {
        meta.type = hdr.pseudowire.worded_first >> 12;
        transition select(meta.type) {
            6: control_word;
            default: inner_ethernet;
        }
    }

    state worded_arp {
        transition select(hdr.pseudowire.worded_first) {
            1: control_word;
            default: inner_ethernet;
        }
    }

    state control_word {
        meta.need = meta.parsed + 4;
        meta.room = meta.end - meta.need;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: whole_control_word;
            default: cut;
        }
    }

    state whole_control_word {
        pkt.extract(hdr.control_word);
        meta.parsed = meta.need;
        transition inner_ethernet;
    }

    state inner_ethernet {
        meta.need = meta.parsed + 14;
        meta.room = meta.end - meta.need;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: whole_inner_ethernet;
            default: cut;
        }
    }

    state whole_inner_ethernet {
        pkt.extract(hdr.inner_ethernet);
        meta.parsed = meta.need;
        meta.type = hdr.inner_ethernet.type;
        transition inner_type_0;
    }
