// Filters, samples, cuts and edits frames before they reach the host.
#include <core.p4>
#include <pna.p4>

#include "sizes.p4"
#include "headers.p4"

struct headers_t {
    PARSED_HEADERS
}

struct metadata_t {
    PARSED_METADATA
}

#include "parser.p4"
#include "controls/emit_frame.p4"

control PreControl(
    in headers_t hdr,
    inout metadata_t meta,
    in pna_pre_input_metadata_t istd,
    inout pna_pre_output_metadata_t ostd)
{
    apply {}
}

control Preprocess(
    inout headers_t hdr,
    inout metadata_t meta,
    in pna_main_input_metadata_t istd,
    inout pna_main_output_metadata_t ostd)
{
    apply {
        hdr.egress.setValid();
        hdr.egress.timestamp_ns = hdr.ingress.timestamp_ns;
        hdr.egress.wire_length = hdr.ingress.wire_length;
        hdr.egress.length = hdr.ingress.captured_length;
        hdr.egress.port = hdr.ingress.port;
        hdr.egress.sequence = meta.parsed;
        hdr.egress.hash = 0;
        hdr.egress.kind = KIND_FRAME;
        hdr.egress.reason = meta.parse_end;
        hdr.egress.reserved = 0;
        hdr.egress.reserved_too = 0;
        send_to_port((PortId_t)PORT_OUT);
    }
}

control PreprocessDeparser(
    packet_out pkt,
    in headers_t hdr,
    in metadata_t meta,
    in pna_main_output_metadata_t ostd)
{
    EmitFrame() frame;
    apply {
        pkt.emit(hdr.egress);
        frame.apply(pkt, hdr);
    }
}

PNA_NIC(FrameParser(), PreControl(), Preprocess(), PreprocessDeparser()) main;
