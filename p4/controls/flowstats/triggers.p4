// Determines the triggers for reports of the packet's flow and of the reverse flow.
control Triggers(inout headers_t hdr, inout metadata_t meta) {
    apply {
        meta.trigger = 0;
        meta.peer_trigger = 0;
        meta.asked = triggers.read(0);
        if (meta.probe == 1) {
            meta.trigger = TRIGGER_PROBE;
        } else {
            if (meta.first == 1) {
                meta.trigger = TRIGGER_FIRST;
            }
            if (meta.held == 1) {
                meta.index = every.read(0);
                if (meta.index != 0) {
                    hdr.work.other = slot_unreported.read(meta.slot);
                    if (hdr.work.other >= meta.index) {
                        meta.trigger = meta.trigger | TRIGGER_NTH;
                    }
                }
                hdr.work.sum = interval_ns.read(0);
                if (hdr.work.sum != 0) {
                    hdr.work.since = slot_reported.read(meta.slot);
                    hdr.work.since = hdr.ingress.timestamp_ns - hdr.work.since;
                    if (hdr.work.since < HALF_64) {
                        if (hdr.work.since >= hdr.work.sum) {
                            meta.trigger = meta.trigger | TRIGGER_TIME;
                        }
                    }
                }
            }
            if (meta.transport == 6) {
                if (hdr.tcp.flags & (TCP_SYN | TCP_FIN | TCP_RST) != 0) {
                    if (hdr.tcp.flags & TCP_SYN != 0) {
                        meta.trigger = meta.trigger | TRIGGER_SYN;
                    }
                    if (hdr.tcp.flags & TCP_FIN != 0) {
                        meta.trigger = meta.trigger | TRIGGER_FIN;
                    }
                    if (hdr.tcp.flags & TCP_RST != 0) {
                        meta.trigger = meta.trigger | TRIGGER_RST;
                    }
                } else {
                    if (hdr.tcp.flags & TCP_ACK != 0) {
                        if (meta.payload_length == 0) {
                            meta.peer_trigger = TRIGGER_ACK;
                        } else {
                            if (meta.advances == 1) {
                                meta.peer_trigger = TRIGGER_DATA_ACK;
                            }
                        }
                    }
                }
            }
        }
        meta.trigger = meta.trigger & meta.asked;
        meta.peer_trigger = meta.peer_trigger & meta.asked;
    }
}
