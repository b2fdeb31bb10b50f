// An IP header of LEVEL outer or inner (WHICH: its number) with its options or extension headers. The next state is
// CARRIED_IPV4 for protocol 4 and CARRIED_IPV6 for protocol 41. The flow key is set from a header only if the header is
// valid.
#define AT(name) JOIN(LEVEL, name)

    // Announced as IPv4; the first four bits determine the version.
    state AT(ipv4_or_6) {
        meta.need = meta.parsed + 1;
        meta.room = meta.end - meta.need;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: AT(ip_version);
            default: cut;
        }
    }

    state AT(ip_version) {
        hdr.peek = pkt.lookahead<peek_h>();
        meta.next = hdr.peek.first >> 4;
        transition select(meta.next) {
            4: AT(ipv4);
            6: AT(ipv6);
            default: bad;
        }
    }

    state AT(ipv6_only) {
        meta.need = meta.parsed + 1;
        meta.room = meta.end - meta.need;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: AT(ipv6_version);
            default: cut;
        }
    }

    state AT(ipv6_version) {
        hdr.peek = pkt.lookahead<peek_h>();
        meta.next = hdr.peek.first >> 4;
        transition select(meta.next) {
            6: AT(ipv6);
            default: bad;
        }
    }

    // RFC 791
    state AT(ipv4) {
        meta.need = meta.parsed + 20;
        meta.room = meta.end - meta.need;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: AT(ipv4_header_length);
            default: cut;
        }
    }

    state AT(ipv4_header_length) {
        hdr.peek = pkt.lookahead<peek_h>();
        meta.size = (bit<32>)hdr.peek.first;
        meta.size = meta.size & 0x0f;
        meta.size = meta.size << 2;
        meta.bits = (bit<32>)hdr.peek.third;
        meta.room = meta.size - 20;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: AT(ipv4_total_length);
            default: bad;
        }
    }

    // Zero if the sender's NIC sets the length (segmentation offload). The packet then extends to the end of the frame.
    state AT(ipv4_total_length) {
        transition select(meta.bits) {
            0: AT(ipv4_no_length);
            default: AT(ipv4_fits);
        }
    }

    state AT(ipv4_no_length) {
        meta.bits = meta.wire_end - meta.parsed;
        transition AT(ipv4_fits);
    }

    state AT(ipv4_fits) {
        meta.room = meta.bits - meta.size;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: AT(ipv4_endpoints);
            default: bad;
        }
    }

    state AT(ipv4_endpoints) {
        pkt.extract(hdr.AT(ipv4));
        meta.ip_length = meta.bits;
        hdr.flow.src_high = 0;
        hdr.flow.src_low = (bit<64>)hdr.AT(ipv4).src;
        hdr.flow.dst_high = 0;
        hdr.flow.dst_low = (bit<64>)hdr.AT(ipv4).dst;
        hdr.flow.ip_version = 4;
        hdr.flow.ip_proto = hdr.AT(ipv4).protocol;
        meta.innermost = WHICH;
        meta.fragment = FRAGMENT_NONE;
        meta.routed = 0;
        meta.next = hdr.AT(ipv4).protocol;
        meta.bits = meta.parsed + meta.ip_length;
        meta.room = meta.bits - meta.wire_end;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: AT(ipv4_end);
            default: AT(ipv4_wire_end);
        }
    }

    // The packet is shorter than the frame.
    state AT(ipv4_wire_end) {
        meta.wire_end = meta.bits;
        transition AT(ipv4_end);
    }

    state AT(ipv4_end) {
        meta.need = meta.parsed + meta.size;
        meta.parsed = meta.parsed + 20;
        meta.room = meta.wire_end - meta.end;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: AT(ipv4_options_there);
            default: AT(ipv4_shorter);
        }
    }

    state AT(ipv4_shorter) {
        meta.end = meta.wire_end;
        transition AT(ipv4_options_there);
    }

    state AT(ipv4_options_there) {
        meta.room = meta.end - meta.need;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: AT(ipv4_has_options);
            default: cut;
        }
    }

    state AT(ipv4_has_options) {
        meta.bits = meta.size - 24;
        meta.room = meta.bits >> 31;
        transition select(meta.room) {
            0: AT(ipv4_options);
            default: AT(ipv4_fragment);
        }
    }

    state AT(ipv4_options) {
        meta.bits = meta.bits << 3;
        pkt.extract(hdr.AT(ipv4_options), meta.bits);
        meta.parsed = meta.need;
        transition AT(ipv4_fragment);
    }

    state AT(ipv4_fragment) {
        meta.type = hdr.AT(ipv4).flags_offset & 0x3fff;
        transition select(meta.type) {
            0: AT(upper_0);
            0x2000: AT(ipv4_first_fragment);
            default: later_fragment;
        }
    }

    state AT(ipv4_first_fragment) {
        meta.fragment = FRAGMENT_FIRST;
        transition AT(upper_0);
    }

    // RFC 8200
    state AT(ipv6) {
        meta.need = meta.parsed + 40;
        meta.room = meta.end - meta.need;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: AT(ipv6_endpoints);
            default: cut;
        }
    }

    state AT(ipv6_endpoints) {
        pkt.extract(hdr.AT(ipv6));
        hdr.flow.src_high = hdr.AT(ipv6).src_high;
        hdr.flow.src_low = hdr.AT(ipv6).src_low;
        hdr.flow.dst_high = hdr.AT(ipv6).dst_high;
        hdr.flow.dst_low = hdr.AT(ipv6).dst_low;
        hdr.flow.ip_version = 6;
        hdr.flow.ip_proto = hdr.AT(ipv6).next;
        meta.innermost = WHICH;
        meta.fragment = FRAGMENT_NONE;
        meta.routed = 0;
        meta.next = hdr.AT(ipv6).next;
        meta.ip_length = (bit<32>)hdr.AT(ipv6).payload_length;
        transition select(meta.ip_length) {
            0: AT(ipv6_no_length);
            default: AT(ipv6_length);
        }
    }

    // A jumbogram, or the sender's NIC sets the length.
    state AT(ipv6_no_length) {
        meta.ip_length = meta.wire_end - meta.parsed;
        meta.parsed = meta.need;
        transition AT(upper_0);
    }

    state AT(ipv6_length) {
        meta.ip_length = meta.ip_length + 40;
        meta.bits = meta.parsed + meta.ip_length;
        meta.parsed = meta.need;
        meta.room = meta.bits - meta.wire_end;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: AT(ipv6_end);
            default: AT(ipv6_wire_end);
        }
    }

    state AT(ipv6_wire_end) {
        meta.wire_end = meta.bits;
        transition AT(ipv6_end);
    }

    state AT(ipv6_end) {
        meta.room = meta.wire_end - meta.end;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: AT(upper_0);
            default: AT(ipv6_shorter);
        }
    }

    state AT(ipv6_shorter) {
        meta.end = meta.wire_end;
        transition AT(upper_0);
    }

#define NUMBER 0
#define EXTENSION 1
#define HEADER extension_1
#include "extension.p4"
#undef HEADER
#undef EXTENSION
#undef NUMBER

#define NUMBER 1
#define EXTENSION 2
#define HEADER extension_2
#include "extension.p4"
#undef HEADER
#undef EXTENSION
#undef NUMBER

#define NUMBER 2
#define EXTENSION 3
#define HEADER extension_3
#include "extension.p4"
#undef HEADER
#undef EXTENSION
#undef NUMBER

#define NUMBER 3
#define EXTENSION 4
#define HEADER extension_4
#include "extension.p4"
#undef HEADER
#undef EXTENSION
#undef NUMBER

    state AT(upper_4) {
        transition select(meta.next) {
            0: too_deep;
            43: too_deep;
            44: too_deep;
            51: too_deep;
            60: too_deep;
            default: AT(upper);
        }
    }

    state AT(upper) {
        transition select(meta.next) {
            6: tcp_ports;
            17: udp_ports;
            1: icmp;
            58: icmp;
            4: CARRIED_IPV4;
            41: CARRIED_IPV6;
            default: other;
        }
    }
#undef AT
