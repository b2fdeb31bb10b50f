/* What the threads of a capture share. */
#ifndef ACAPELLA_CAPTURE_H
#define ACAPELLA_CAPTURE_H

#include <pcap/pcap.h>
#include <signal.h>

#include "acapella_p4.h"
#include "port/generator.h"
#include "port/port.h"
#include "writer/output.h"

#define BURST_MAX 512

struct worker {
    struct capture *capture;
    unsigned queue;
    struct output *output;
    uint8_t *whole;                   /* a frame in several segments, as one */
    struct p4 *p4;                    /* what every frame goes through first; NULL: nothing */
    struct p4_frame batch[BURST_MAX]; /* of this burst, not yet given to it */
    unsigned batched, returned;       /* of the batch; of these it is done with */
    struct fault fault;
    _Atomic bool failed; /* fault says why, or a file does */
    struct counts counts;
    _Atomic uint64_t unstamped;
    _Atomic uint64_t loops;   /* grows while the thread lives */
    uint64_t empty_since;     /* no frame was there at any look since; 0: there was at the last */
    _Atomic uint64_t idle_ns; /* from that to the last look */
    _Atomic uint64_t cpu_ns;  /* that the thread took, known when it ends */
};

struct capture {
    struct options options;
    struct port port;
    struct generator generator;
    struct files files;
    struct bpf_program filter;
    bool filters;
    _Atomic bool stop;
    struct worker *worker; /* one a queue */
    const struct store_kind *writer;
    char writer_note[256];     /* why it is not the one asked for */
    const char *stopped_by;    /* NULL while running */
    uint64_t begin_ns, end_ns; /* system clock */
};

/* The thread of a queue; the argument is its worker. */
int worker_run(void *argument);

/* What the worker (user) does with a frame that its P4 program is done with. */
void worker_preprocessed(void *user, const struct p4_verdict *verdict);

#endif
