/* Writes the packets that pass the rules, truncated, to a pcapng with the 128-bit hash of each whole packet,
 * using the writer of acapella-dpdk-capture (capture/dpdk/src/writer). */
#ifndef ACAPELLA_TRUNCATED_H
#define ACAPELLA_TRUNCATED_H

#include "count/monitor.h"
#include "counts.h"
#include "writer/output.h"

struct truncated {
    struct files files;
    struct counts counts;
    struct output *output; /* NULL if not open */
    char *stem;
    uint32_t snaplen; /* 0: whole packets */
    bool failed;
};

/* Opens PATH.pcapng, or PATH-qPORT.pcapng for several ports, and registers it with the monitor, which writes
 * to it. The file must not exist. Returns 0, or -1 with the reason in fault. */
int truncated_open(struct truncated *truncated, const char *path, uint32_t snaplen, unsigned port,
                   bool many_ports, struct monitor *monitor, struct fault *fault);

/* Completes the file. Returns 0, or -1 with the reason in fault if it is not complete. */
int truncated_close(struct truncated *truncated, struct fault *fault);

#endif
