// Sets the egress header: the frame's timestamp, ingress port, and sequence number on that port.
#ifndef ACAPELLA_STAMP_P4
#define ACAPELLA_STAMP_P4

control Stamp(inout headers_t hdr, inout metadata_t meta) {
    @name("sequence") Register<bit<32>, bit<32>>(PORTS, 0) sequence;
    // Number of frames by the parser's result; the index is END_*.
    @name("parse_ends") Register<bit<64>, bit<32>>(ENDS, 0) parse_ends;

    apply {
        hdr.egress.setValid();
        hdr.egress.timestamp_ns = hdr.ingress.timestamp_ns;
        hdr.egress.wire_length = hdr.ingress.wire_length;
        hdr.egress.length = hdr.ingress.captured_length;
        hdr.egress.port = hdr.ingress.port;
        hdr.egress.hash = 0;
        hdr.egress.kind = KIND_FRAME;
        hdr.egress.reason = REASON_SENT;
        hdr.egress.reserved = 0;
        hdr.egress.reserved_too = 0;

        meta.port = hdr.ingress.port & (PORTS - 1);
        meta.count = sequence.read(meta.port);
        hdr.egress.sequence = meta.count;
        meta.count = meta.count + 1;
        sequence.write(meta.port, meta.count);

        meta.size = (bit<32>)meta.parse_end;
        meta.count64 = parse_ends.read(meta.size);
        meta.count64 = meta.count64 + 1;
        parse_ends.write(meta.size, meta.count64);
    }
}

#endif
