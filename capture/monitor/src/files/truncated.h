/* Writes the packets that pass the rules, truncated, to a pcapng with the 128-bit identity of each whole
 * packet, with the writer of acapella-dpdk-capture (capture/dpdk/src/writer). */
#ifndef ACAPELLA_TRUNCATED_H
#define ACAPELLA_TRUNCATED_H

#include "count/monitor.h"
#include "counts.h"
#include "writer/output.h"

struct truncated {
    struct files files;
    struct counts counts;
    struct output *output; /* NULL: not open */
    char *stem;
    uint32_t snaplen; /* 0: whole packets */
    bool failed;
};

/* Opens PATH.pcapng, or PATH-qPORT.pcapng for several ports, and lets the monitor write to it. The file must
 * not exist. 0, or -1: see fault. */
int truncated_open(struct truncated *truncated, const char *path, uint32_t snaplen, unsigned port,
                   bool many_ports, struct monitor *monitor, struct fault *fault);

/* Completes the file. 0, or -1 if it is not complete: see fault. */
int truncated_close(struct truncated *truncated, struct fault *fault);

#endif
