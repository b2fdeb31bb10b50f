// Rewrites addresses. Register edit_which is a bit mask of the kinds: 1 MAC, 2 IPv4, 4 IPv6. The tables select the
// action; addresses without a matching entry get the table's default action.
#ifndef ACAPELLA_EDIT_P4
#define ACAPELLA_EDIT_P4

#include "controls/preprocess/edit_macs.p4"
#include "controls/preprocess/edit_ipv4.p4"
#include "controls/preprocess/edit_ipv6.p4"
#include "controls/preprocess/edit_checksums.p4"

control Edit(inout headers_t hdr, inout metadata_t meta) {
    @name("which") Register<bit<32>, bit<32>>(1, 0) which;

    EditMacs() macs;
    EditIpv4() ipv4;
    EditIpv6() ipv6;
    EditChecksums() checksums;

    apply {
        meta.count = which.read(0);
        hdr.edit.outer_sum = 0;
        hdr.edit.inner_sum = 0;
        hdr.edit.transport_sum = 0;
        meta.bits = meta.count & 1;
        if (meta.bits != 0) {
            macs.apply(hdr, meta);
        }
        meta.bits = meta.count & 2;
        if (meta.bits != 0) {
            ipv4.apply(hdr, meta);
        }
        meta.bits = meta.count & 4;
        if (meta.bits != 0) {
            ipv6.apply(hdr, meta);
        }
        checksums.apply(hdr, meta);
    }
}

#endif
