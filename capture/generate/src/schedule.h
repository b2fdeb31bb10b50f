/* The packets of all flows in the order of their departures, with the rate limits of flows and of the port.
 */
#ifndef ACAPELLA_GENERATE_SCHEDULE_H
#define ACAPELLA_GENERATE_SCHEDULE_H

#include "model.h"

struct event {
    int64_t due_ns;
    struct flow *flow;
};

struct schedule {
    struct event *heap; /* the first event is the earliest */
    uint32_t count;     /* flows that have a next packet */
    uint64_t rate_bps;  /* of the port; 0 if unlimited */
    int64_t free_ns;    /* earliest departure by the rate limit of the port */
};

/* Returns 0, or -1 with the reason in fault if out of memory. */
int schedule_open(struct schedule *schedule, struct model *model, struct fault *fault);
void schedule_close(struct schedule *schedule);

/* Returns the flow of the next packet and its time since the start, or NULL if all flows have ended. */
static inline struct flow *schedule_next(const struct schedule *schedule, int64_t *due_ns) {
    if (schedule->count == 0) {
        return NULL;
    }
    const struct event *event = schedule->heap;
    *due_ns = event->due_ns < schedule->free_ns ? schedule->free_ns : event->due_ns;
    return event->flow;
}

/* Advances past the packet that schedule_next has returned with the time `due_ns`. */
void schedule_advance(struct schedule *schedule, int64_t due_ns);

#endif
