/* The number of packets of a run by outcome, and the errors of their departures. */
#ifndef ACAPELLA_REPLAY_SUMMARY_H
#define ACAPELLA_REPLAY_SUMMARY_H

#include "engine/replay.h"

struct summary {
    uint64_t packets; /* of all loops */
    uint64_t outcome[OUTCOMES];
    uint64_t sent_late;        /* packets that departed more than --late-ns late */
    uint64_t retries;          /* driver calls that did not accept the whole burst */
    int64_t first_ns, last_ns; /* departures; DEPARTED_NEVER: none */
    bool monotone; /* departures are in the order of the packets; with different lead times, those of each
                      port */
    /* departure minus requested time of packets that were sent; percentiles by nearest rank; largest_ns is
     * the largest absolute value */
    bool measured;
    int64_t median_ns, p99_ns, largest_ns;
    bool balanced; /* the counts add up, and agree with those of the polling thread */
};

/* Summarizes the departures of a run that has ended. It uses replay->errors; `measured` is false if no packet
 * was sent. */
void summarize(struct summary *summary, const struct replay *replay);

#endif
