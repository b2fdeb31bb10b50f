/* The polling thread: forwards and records as a bridge, and runs replays. The main thread sends it one
 * request at a time. */
#ifndef ACAPELLA_REPLAY_WORKER_H
#define ACAPELLA_REPLAY_WORKER_H

#include "engine/bridge.h"
#include "engine/replay.h"

enum request {
    REQUEST_NONE,
    REQUEST_RECORD,
    REQUEST_RUN,
    REQUEST_STOP,
    REQUEST_COUNT,
    REQUEST_PAUSE, /* count, and neither poll nor send until REQUEST_RESUME */
    REQUEST_RESUME,
    REQUEST_SEND,
    REQUEST_END
};
enum activity { ACTIVITY_IDLE, ACTIVITY_RECORDING, ACTIVITY_RUNNING };

struct worker {
    struct bridge bridge;
    struct replay replay;
    bool forwards, spin, paused;
    unsigned priority;                    /* SCHED_FIFO during a run; 0 if none */
    int64_t from_ns, until_ns, window_ns; /* of REQUEST_RECORD */
    enum end_reason stop_reason;          /* of REQUEST_STOP */
    struct port *send_port;               /* of REQUEST_SEND */
    struct rte_mbuf *send_mbuf; /* of REQUEST_SEND, which sets it to NULL if the driver accepts it */
    bool send_failed;           /* of REQUEST_SEND: the driver could not send what it accepted */
    struct traffic traffic[OPTIONS_PORTS][QUEUES_MAX]; /* copied by REQUEST_COUNT or PAUSE between two bursts,
                                                          so that the counts add up */
    _Atomic enum request request;                      /* the polling thread resets it when it is done */
    _Atomic enum activity activity;
    _Atomic uint64_t
        empty_polls;    /* polls of all queues of the bridge that received nothing, outside of runs */
    _Atomic bool began; /* the first packet of a run is due within 2 ms, or was sent */
};

/* Thread function; the argument is the worker. */
int worker_run(void *argument);

/* Sets the real-time priority of the calling thread; 0 is none. Returns 0 or an errno. */
int worker_set_priority(unsigned priority);

/* Sends a request to the polling thread and waits until it is done. */
void worker_request(struct worker *worker, enum request request);

#endif
