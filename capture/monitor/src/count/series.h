/* Counts per interval for a run of unknown length, in constant memory: if there are too many intervals, their
 * length is doubled, and pairs of them are merged. */
#ifndef ACAPELLA_SERIES_H
#define ACAPELLA_SERIES_H

#include <stdint.h>

#define SERIES_INTERVALS 4096
#define SERIES_BEGIN_NS 1000000 /* initial length of an interval */

/* A record of a result file. */
struct interval {
    uint64_t packets, bytes; /* all packets of the port */
    uint64_t first_copies;   /* packets with a latency */
    int64_t latency_min_ns;  /* smallest latency */
    int64_t latency_at_ns;   /* arrival of the first packet with this latency */
};

struct series {
    int64_t begin_ns, length_ns; /* length 0: no packet yet */
    uint32_t used;               /* intervals up to the last one with a packet */
    int64_t current_ns;          /* start of the interval of the previous packet */
    struct interval *current;
    uint64_t early; /* packets that arrived before the first one, counted in the first interval */
    struct interval interval[SERIES_INTERVALS];
};

struct interval *series_find(struct series *series, int64_t arrival_ns);

/* Returns the interval of an arrival. Most packets are in the same one as the previous packet, which needs no
 * division. */
static inline struct interval *series_at(struct series *series, int64_t arrival_ns) {
    const uint64_t since = (uint64_t)arrival_ns - (uint64_t)series->current_ns;
    return since < (uint64_t)series->length_ns ? series->current : series_find(series, arrival_ns);
}

#endif
