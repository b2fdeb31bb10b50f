/* The command line. */
#ifndef ACAPELLA_GENERATE_ARGUMENTS_H
#define ACAPELLA_GENERATE_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/eal.h"
#include "common/fault.h"

struct arguments {
    struct eal_settings eal;
    const char *model;                /* NULL to print `trace` */
    const char *trace;                /* a capture */
    const char *output;               /* a pcap; NULL to send to `port` */
    const char *port;                 /* device name */
    uint64_t start_ns;                /* of the traffic; 0 with a port: as soon as possible */
    unsigned burst, depth, max_frame; /* max_frame: 0 for the longest packet, at least 2048 */
    uint64_t retry_ns;
    unsigned priority;
};

/* Returns 0, 1 if help or version was printed, or -1 with the reason in fault. */
int arguments_read(struct arguments *arguments, int argc, char **argv, struct fault *fault);

#endif
