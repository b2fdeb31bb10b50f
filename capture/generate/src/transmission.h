/* Sends the packets of a model to a port at their times. */
#ifndef ACAPELLA_GENERATE_TRANSMISSION_H
#define ACAPELLA_GENERATE_TRANSMISSION_H

#include "engine/ports.h"
#include "errors.h"
#include "schedule.h"

enum transmission_end { SENDING, SENT_ALL, SENDING_STOPPED, SENDING_CLOCK_STEP, SENDING_LINK_DOWN };

/* A packet of the burst that is being sent. */
struct built {
    struct flow *flow;
    uint32_t bytes;
    bool malformed;
    int64_t error_ns; /* departure minus requested time */
};

struct transmission {
    struct schedule *schedule;
    struct port *port;
    struct timebase *time;
    struct rte_mempool *pool;
    int64_t start_ns;
    unsigned burst;
    int64_t retry_ns;
    unsigned steps; /* number of clock steps at the start */
    struct rte_mbuf *mbuf[BURST_MAX];
    struct built built[BURST_MAX];
    struct errors errors; /* of packets that were sent */
    _Atomic enum transmission_end end;
    bool drained; /* after the end: no packet is left in the queue of the device */
};

/* Sends the packets that are due, at most a burst; retries for at most retry_ns. It allocates nothing
 * but mbufs, and does not print. Returns false if the transmission has ended. */
bool transmission_poll(struct transmission *transmission);

/* Ends the transmission; only the first call has an effect. */
void transmission_stop(struct transmission *transmission, enum transmission_end end);

const char *transmission_end_name(enum transmission_end end);

#endif
