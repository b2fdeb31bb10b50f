/* The command line. */
#ifndef ACAPELLA_MONITOR_OPTIONS_H
#define ACAPELLA_MONITOR_OPTIONS_H

#include "common/command_line.h"
#include "common/ports/receive_port.h"
#include "count/monitor.h"

#define PORTS_MAX 16

struct options {
    struct eal_settings eal;
    const char *read[PORTS_MAX]; /* capture files */
    unsigned files;
    const char *flows;   /* binary list of expected flows */
    const char *result;  /* binary result */
    const char *packets; /* logs of packets, PATH-PORT; NULL if none */
    const char *write;   /* truncated capture; NULL if none */
    uint32_t snaplen;    /* of the truncated capture; 0 for whole packets */
    unsigned max_flows, window;
    unsigned depth, max_frame; /* of each port */
    enum clock_choice clock;
    double duration_s, idle_s; /* 0: no limit */
    double every_s;            /* 0: do not print counts */
    unsigned live_flows;
    struct monitor_settings monitor;
};

/* Returns 0, 1 if help or version was printed, or -1 with the reason in fault. */
int options_read(struct options *options, int argc, char **argv, struct fault *fault);

#endif
