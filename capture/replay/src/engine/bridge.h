/* Forwards packets between two ports without changing them, and records them in bursts as they are sent. */
#ifndef ACAPELLA_REPLAY_BRIDGE_H
#define ACAPELLA_REPLAY_BRIDGE_H

#include "engine/inband.h"
#include "engine/ports.h"
#include "engine/recording.h"
#include "engine/timebase.h"

enum recording_end { RECORDING_END_NONE, RECORDING_END_UNTIL, RECORDING_END_MEMORY, RECORDING_END_STOP };

#define BURST_SIZES 7 /* bursts of up to 1, 2, 4, ..., BURST_MAX packets */

/* The measured time to forward a burst. */
struct forward_cost {
    int64_t ns[BURST_SIZES]; /* the longest of recent bursts of up to 2^i packets; 0 if there was none */
    int64_t until_ns;        /* end of forwarding before the latest departure */
};

struct bridge {
    const struct options *options;
    struct ports *ports;
    struct timebase *time;
    struct recording *recording;
    struct inband *inband;     /* takes control messages; NULL to forward them */
    bool records;              /* false: no recording is active */
    int64_t from_ns, until_ns; /* until_ns 0: until stopped */
    int64_t window_ns;         /* rolling: packets older than this are removed; 0 if not rolling */
    enum recording_end end;    /* reason for the end of the recording */
    struct forward_cost cost;
    int64_t deadline_ns;     /* of the current poll, for retries */
    unsigned next;           /* direction and queue to poll next */
    uint64_t removed_memory; /* rolling: packets within the window that were removed for lack of memory */
};

/* Forwards at most one burst of each queue in each direction. Returns the number of packets received. */
unsigned bridge_poll(struct bridge *bridge);

/* Like bridge_poll, but before a departure of a run: receives only as many packets as can be forwarded until
 * --guard-ns before `due_ns`, as estimated from the longest time that recent bursts took. */
unsigned bridge_poll_before(struct bridge *bridge, int64_t due_ns);

/* Begin and end a recording; `from_ns` 0 is now. */
void bridge_record(struct bridge *bridge, int64_t from_ns, int64_t until_ns, int64_t window_ns);
void bridge_stop(struct bridge *bridge, enum recording_end end);

#endif
