/* A capture filter, pcap-filter(7), for whole Ethernet frames. */
#ifndef ACAPELLA_FILTER_H
#define ACAPELLA_FILTER_H

#include <pcap/pcap.h>
#include <stdbool.h>

#include "common/fault.h"

/* Returns 0, or -1 with libpcap's message in fault. */
int filter_compile(struct bpf_program *program, const char *text, struct fault *fault);

/* `bytes` points to the first `have` bytes of a frame of `wire_bytes`. */
static inline bool filter_passes(const struct bpf_program *program, const unsigned char *bytes,
                                 unsigned wire_bytes, unsigned have) {
    return bpf_filter(program->bf_insns, bytes, wire_bytes, have) != 0;
}

#endif
