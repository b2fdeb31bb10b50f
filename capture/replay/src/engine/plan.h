/* The plan of a run: the time, burst and tag of each packet of the recording. It is built before the start.
 * Entry i belongs to packet i of the recording. */
#ifndef ACAPELLA_REPLAY_PLAN_H
#define ACAPELLA_REPLAY_PLAN_H

#include "engine/ports.h"
#include "engine/recording.h"

/* Outcome of a packet in a loop. The file of departures contains these numbers. */
enum outcome {
    OUTCOME_SENT,
    OUTCOME_RING_FULL,    /* the driver did not accept it within --retry-ns */
    OUTCOME_LATE,         /* not sent because of --drop-late-ns */
    OUTCOME_TOO_LONG,     /* for the MTU of the port, or the mbuf has no room for the tag */
    OUTCOME_TOO_SHORT,    /* shorter than an Ethernet header and a byte */
    OUTCOME_DRIVER_ERROR, /* the driver accepted it and could not send it */
    OUTCOME_STOPPED,      /* the run ended before its departure */
    OUTCOMES,
};

struct entry {
    int64_t offset_ns; /* since the start of the loop */
    uint32_t next;     /* the port's next burst, if a burst begins here; `packets`: none */
    uint8_t port, queue;
    uint8_t count;    /* packets of the burst that begins here; 0 if it is not the first of a burst */
    uint8_t rejected; /* outcome of a packet that is not sent; 0 if it is sent */
};

struct plan {
    struct rte_mbuf **mbuf; /* of the recording, or tagged copies */
    struct entry *entry;
    uint32_t packets;
    uint32_t first[OPTIONS_PORTS]; /* the first burst of each port; `packets`: none */
    int64_t period_ns;             /* between the starts of two loops: the duration plus one mean gap */
    uint64_t time_reversed; /* packets with a time before that of their predecessor, whose time they get */
    uint64_t rejected[OUTCOMES];
    bool copies; /* the mbufs are tagged copies, freed with the plan */
};

/* Returns 0, or -1 with the reason in fault. */
int plan_build(struct plan *plan, const struct recording *recording, const struct ports *ports,
               const struct options *options, uint64_t speed_ppm, struct fault *fault);
void plan_free(struct plan *plan);

const char *outcome_name(enum outcome outcome);

#endif
