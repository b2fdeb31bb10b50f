/* The state of the program: ports, recording and polling thread, and the execution of commands. */
#ifndef ACAPELLA_REPLAY_SESSION_H
#define ACAPELLA_REPLAY_SESSION_H

#include "control/command.h"
#include "control/port_counters.h"
#include "engine/worker.h"

/* Memory that the options need, in bytes. */
struct memory {
    uint64_t mbufs;        /* number */
    uint64_t mbuf_bytes;   /* EAL memory */
    uint64_t packet_bytes; /* packet lists of the recording and of a plan */
    uint64_t departure_bytes;
    uint64_t total_bytes, available_bytes;
};

struct session {
    struct options options;
    struct memory memory;
    struct ports ports;
    struct timebase time;
    struct recording recording;
    struct worker worker;
    struct inband inband;
    enum activity activity; /* as last reported */
    bool running_reported;
    uint64_t runs;
    int64_t disciplined_ns, checked_ns;             /* monotonic */
    uint64_t answered[OPTIONS_PORTS];               /* frames, by the port that sent them */
    struct counters counters_before[OPTIONS_PORTS]; /* before a run or recording */
    struct counters counters_after[OPTIONS_PORTS];  /* after it */
    struct counters counters_first[OPTIONS_PORTS];  /* at the start */
    FILE *out;
};

/* Computes the memory that is needed. Fails if the machine does not have it. */
int session_check_memory(struct session *session, struct fault *fault);

/* Opens the ports and the recording, and starts the polling thread. EAL must have been started. Returns 0, or
 * -1 with the reason in fault; call session_close even then. */
int session_open(struct session *session, struct fault *fault);
void session_close(struct session *session);

/* Executes a command. Returns 0, 1 on quit, or -1 with the reason in fault; the program continues after an
 * error. */
int session_execute(struct session *session, const struct command *command, struct fault *fault);

/* Ends a recording or a run that is active, and reports it. */
void session_stop(struct session *session, enum end_reason reason);

/* Call it at least every 10 ms: reports recordings and runs that have ended, corrects the clocks, checks
 * links. Returns -1 with the reason in fault if a link is down. */
int session_update(struct session *session, struct fault *fault);

#endif
