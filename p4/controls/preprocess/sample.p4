// Three sampling methods, each of which is disabled while its register is 0: a share of flows and a share of packets,
// both selected by hashes that are the same wherever a packet is captured, and then every n-th remaining frame of a
// port.
#ifndef ACAPELLA_SAMPLE_P4
#define ACAPELLA_SAMPLE_P4

control Sample(inout headers_t hdr, inout metadata_t meta) {
    // Flows and packets with hashes below these values are kept: 2^32 keeps all.
    @name("flows_below") Register<bit<64>, bit<32>>(1, 0) sample_flows_below;
    @name("packets_below") Register<bit<64>, bit<32>>(1, 0) sample_packets_below;
    @name("every") Register<bit<32>, bit<32>>(1, 0) sample_every;
    // Frames of the port, counted from the last one that was kept; 0: keep the next one.
    @name("passed") Register<bit<32>, bit<32>>(PORTS, 0) sample_passed;

    // jhash on DPDK's pipeline.
    Hash<bit<32>>(PNA_HashAlgorithm_t.TARGET_DEFAULT) hash;

    apply {
        meta.hash = hash.get_hash(hdr.sample_flow);
        hdr.sample_packet.flow_hash = meta.hash;
        meta.count64 = sample_flows_below.read(0);
        if (meta.count64 != 0) {
            if ((bit<64>)meta.hash >= meta.count64) {
                hdr.egress.reason = REASON_FLOW_SAMPLED;
            }
        }

        meta.hash = hash.get_hash(hdr.sample_packet);
        hdr.egress.hash = meta.hash;
        if (hdr.egress.reason == REASON_SENT) {
            meta.count64 = sample_packets_below.read(0);
            if (meta.count64 != 0) {
                if ((bit<64>)meta.hash >= meta.count64) {
                    hdr.egress.reason = REASON_PACKET_SAMPLED;
                }
            }
        }

        if (hdr.egress.reason == REASON_SENT) {
            meta.size = sample_every.read(0);
            if (meta.size != 0) {
                meta.count = sample_passed.read(meta.port);
                if (meta.count != 0) {
                    hdr.egress.reason = REASON_NOT_NTH;
                }
                meta.count = meta.count + 1;
                if (meta.count >= meta.size) {
                    meta.count = 0;
                }
                sample_passed.write(meta.port, meta.count);
            }
        }
    }
}

#endif
