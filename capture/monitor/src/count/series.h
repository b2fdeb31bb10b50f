/* Counts by interval of a run of unknown length, in constant memory: if there are too many intervals, they
 * are made twice as long, and pairs of them are merged. */
#ifndef ACAPELLA_SERIES_H
#define ACAPELLA_SERIES_H

#include <stdint.h>

#define SERIES_INTERVALS 4096
#define SERIES_BEGIN_NS 1000000 /* length of an interval at first */

/* A record of a result file. */
struct interval {
    uint64_t packets, bytes; /* all packets of the port */
    uint64_t first_copies;   /* packets with a latency */
    int64_t latency_min_ns;  /* the smallest one */
    int64_t latency_at_ns;   /* arrival of the first packet with it */
};

struct series {
    int64_t begin_ns, length_ns; /* length 0: no packet yet */
    uint32_t used;               /* intervals up to the last one with a packet */
    uint64_t early; /* packets that arrived before the first one, counted in the first interval */
    struct interval interval[SERIES_INTERVALS];
};

/* Returns the interval of an arrival. */
struct interval *series_at(struct series *series, int64_t arrival_ns);

#endif
