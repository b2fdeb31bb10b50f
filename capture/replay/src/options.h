/* The command line. */
#ifndef ACAPELLA_REPLAY_OPTIONS_H
#define ACAPELLA_REPLAY_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/eal.h"
#include "common/fault.h"

#define OPTIONS_PORTS 8
#define BURST_MAX 64
#define QUEUES_MAX 16

enum pacing { PACING_BURSTS, PACING_SINGLE };
enum tag { TAG_NONE, TAG_CHOIR, TAG_FIXED };

struct options {
    struct eal_settings eal;         /* memory 0: as needed */
    const char *port[OPTIONS_PORTS]; /* Tx ports; with `bridge`, the two ports of the bridge */
    unsigned ports;
    bool bridge;
    unsigned queues; /* Rx and Tx queues of a port */
    bool in_band;    /* take control messages from the ports of the bridge */
    unsigned burst;
    uint32_t max_frame;
    uint64_t packets;    /* of the recording */
    uint64_t departures; /* of a run */
    enum pacing pacing;
    uint64_t lead_ns; /* lead time (docs/replay.md) of --lead-ns; 0 if it is not set, or measured */
    /* For each Tx port, the port that receives its packets to measure the lead time; NULL: use Tx timestamps.
     */
    const char *lead_from[OPTIONS_PORTS];
    unsigned lead_sources; /* 0: the lead time is not measured */
    uint64_t retry_ns, late_ns;
    uint64_t drop_late_ns; /* 0: never */
    uint64_t guard_ns;
    uint64_t wake_ns; /* 0: poll all the time */
    enum tag tag;
    unsigned node; /* in the tag */
    unsigned depth;
    unsigned priority; /* SCHED_FIFO, of the polling thread during a run; 0 if none */
    bool spin;
};

/* Returns 0, 1 if help or version was printed, or -1 with the reason in fault. */
int options_read(struct options *options, int argc, char **argv, struct fault *fault);

#endif
