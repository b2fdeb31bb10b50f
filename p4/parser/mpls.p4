// Entry number COUNT of an MPLS label stack (RFC 3032) in header ENTRY. Its label is stored in LABEL; the next state is
// FOLLOWING.
    state ENTRY {
        meta.need = meta.parsed + 4;
        meta.room = meta.end - meta.need;
        meta.room = meta.room >> 31;
        transition select(meta.room) {
            0: JOIN(whole, ENTRY);
            default: cut;
        }
    }

    state JOIN(whole, ENTRY) {
        pkt.extract(hdr.ENTRY);
        meta.parsed = meta.need;
        meta.size = hdr.ENTRY.entry >> 12;
        hdr.flow.LABEL = meta.size;
        hdr.flow.mpls_count = COUNT;
        meta.bits = hdr.ENTRY.entry & 0x100;  // bottom of stack
        transition select(meta.bits) {
            0: FOLLOWING;
            default: mpls_bottom;
        }
    }
