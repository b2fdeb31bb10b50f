/* State shared by the threads of a capture. */
#ifndef ACAPELLA_CAPTURE_H
#define ACAPELLA_CAPTURE_H

#include <pcap/pcap.h>
#include <signal.h>

#include "acapella_p4.h"
#include "port/environment.h"
#include "port/generator.h"
#include "writer/output.h"

#define BURST_MAX 512

struct worker {
    struct capture *capture;
    unsigned queue;
    struct output *output;
    uint8_t *joined;                  /* buffer to join the segments of a frame */
    struct p4 *p4;                    /* processes every frame first; NULL without a program */
    struct p4_frame batch[BURST_MAX]; /* frames of this burst that p4 has not processed yet */
    unsigned batched, returned;       /* frames of the batch, and those that p4 has processed */
    struct fault fault;
    _Atomic bool failed; /* the cause is in `fault`, or in `error` of a file */
    struct counts counts;
    _Atomic uint64_t unstamped;
    uint64_t empty_since;     /* time of the first poll of the current series without frames; 0: the last poll
                                 received a frame */
    _Atomic uint64_t idle_ns; /* from empty_since to the last poll */
    _Atomic uint64_t cpu_ns;  /* CPU time of the thread, set when it ends */
};

struct capture {
    struct options options;
    struct receive_port port;
    struct generator generator;
    struct files files;
    struct bpf_program filter;
    bool filters;
    _Atomic bool stop;
    struct worker *worker; /* one per queue */
    const struct store_kind *writer;
    char writer_note[256];     /* reason for not using the default writer */
    const char *stopped_by;    /* NULL while running */
    uint64_t begin_ns, end_ns; /* system clock */
};

/* Thread of a queue; the argument is its worker. */
int worker_run(void *argument);

/* Called by the P4 program for each frame that it has processed; `user` is the worker. */
void worker_preprocessed(void *user, const struct p4_verdict *verdict);

#endif
