// Filters, samples, truncates and edits frames before they reach the host. Each frame is sent with its ingress port's
// sequence number and its arrival time, so that losses can be detected. Frames that are not sent go to the sink with a
// reason.
#include <core.p4>
#include <pna.p4>

#include "sizes.p4"
#include "headers.p4"

struct headers_t {
    PARSED_HEADERS
    sample_flow_h sample_flow;
    sample_packet_h sample_packet;
    edit_h edit;
}

struct metadata_t {
    PARSED_METADATA
    bit<32> port;     // register index of the ingress port
    bit<32> kept;     // bytes of the frame that the filter keeps
    bit<32> swapped;  // 1: from the higher endpoint to the lower
    bit<32> count;    // scratch values
    bit<64> count64;
}

#include "parser.p4"
#include "controls/preprocess/stamp.p4"
#include "controls/preprocess/filter.p4"
#include "controls/preprocess/sample_key.p4"
#include "controls/preprocess/sample.p4"
#include "controls/preprocess/cut.p4"
#include "controls/preprocess/edit.p4"
#include "controls/preprocess/emit_frame.p4"

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
    Stamp() stamp;
    Filter() filter;
    SampleKey() sample_key;
    Sample() sample;
    Cut() cut;
    Edit() edit;

    apply {
        hdr.edit.setValid();
        stamp.apply(hdr, meta);
        filter.apply(hdr, meta);
        if (hdr.egress.reason == REASON_SENT) {
            sample_key.apply(hdr, meta);
            sample.apply(hdr, meta);
        }
        if (hdr.egress.reason == REASON_SENT) {
            cut.apply(hdr, meta);
            edit.apply(hdr, meta);
            send_to_port((PortId_t)PORT_OUT);
        } else {
            send_to_port((PortId_t)PORT_SINK);
        }
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
