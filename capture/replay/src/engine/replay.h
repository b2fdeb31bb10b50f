/* A run sends the packets of a plan at their times and stores the departure of each. The polling thread
 * calls replay_begin, replay_poll and replay_end, which do not allocate, wait or print. */
#ifndef ACAPELLA_REPLAY_REPLAY_H
#define ACAPELLA_REPLAY_REPLAY_H

#include "engine/plan.h"
#include "engine/timebase.h"

#define DEPARTED_NEVER INT64_MIN

/* OWN_STAMP: the driver accepted no other packet in the same call. HARDWARE: the departure time includes a
 * lead time measured with timestamps of a NIC. */
enum departed_flags { DEPARTED_OWN_STAMP = 1, DEPARTED_BURST_FIRST = 2, DEPARTED_HARDWARE = 4 };

struct departure {
    int64_t ns; /* CLOCK_REALTIME; DEPARTED_NEVER: it was not sent */
    uint32_t retries;
    uint8_t outcome, flags;
};

enum end_reason { END_NONE, END_COMPLETE, END_STOP, END_CLOCK_STEP, END_LINK_DOWN };

/* The next burst of a port. */
struct port_cursor {
    uint32_t loop, at;
    int64_t loop_start_ns;
    int64_t due_ns; /* the lead time of the port before the departure */
    bool ended;
};

struct replay {
    const struct options *options;
    struct ports *ports;
    struct timebase *time;
    struct plan plan;
    struct departure *departed;    /* loop * plan.packets + packet */
    int64_t *errors;               /* used by summarize; same size as `departed` */
    uint64_t capacity, departures; /* size of `departed`; departures of this run */
    int64_t start_ns;
    uint32_t loops;
    uint64_t speed_ppm;
    _Atomic enum end_reason end_reason; /* END_NONE: not ended */
    /* position: the burst that is due first, among all ports */
    struct port_cursor cursor[OPTIONS_PORTS]; /* by port */
    uint32_t loop, at;
    uint16_t done; /* packets of the burst that have an outcome */
    int64_t due_ns;
    int64_t first_try_ns; /* of the burst, if the driver did not accept all of it */
    uint32_t retries;
    unsigned steps; /* number of clock steps at the start */
    /* polling */
    int64_t polled_ns, largest_gap_ns;
    uint64_t polls;
    bool begun; /* since replay_begin */
    long preemptions;
    uint64_t accepted; /* packets that drivers accepted and did not report as failed */
};

/* Allocates memory for departures. Returns 0, or -1 with the reason in fault. */
int replay_open(struct replay *replay, const struct options *options, struct ports *ports,
                struct timebase *time, struct fault *fault);
void replay_close(struct replay *replay);

/* Prepares a run of replay->plan, which the caller has built, and initializes its departures. Returns 0, or
 * -1 with the reason in fault. */
int replay_prepare(struct replay *replay, uint32_t loops, uint64_t speed_ppm, struct fault *fault);

/* Sets the time of the first packet of the run. Returns 0, or -1 with the reason in fault. */
int replay_start_at(struct replay *replay, int64_t start_ns, struct fault *fault);

/* Begins polling: gaps are measured from now on. */
void replay_begin(struct replay *replay);

/* Sends the next burst if it is due. Returns false if the run has ended. */
bool replay_poll(struct replay *replay);

/* Returns the time for which the thread may sleep before it polls again: until --wake-ns before the next
 * departure, at most `longest_ns`. 0: do not sleep. The next gap between polls is measured from the end of
 * the sleep. */
int64_t replay_sleep_ns(struct replay *replay, int64_t longest_ns);

/* Ends a run; only the first call has an effect. */
void replay_end(struct replay *replay, enum end_reason reason);

/* Returns the requested time of a packet in a loop. */
static inline int64_t replay_requested(const struct replay *replay, uint32_t loop, uint32_t packet) {
    return replay->start_ns + (int64_t)loop * replay->plan.period_ns + replay->plan.entry[packet].offset_ns;
}

const char *end_reason_name(enum end_reason reason);

#endif
