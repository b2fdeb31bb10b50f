/* What the parts of the library share of a loaded program. */
#ifndef ACAPELLA_P4_PROGRAM_H
#define ACAPELLA_P4_PROGRAM_H

#include <rte_swx_ctl.h>
#include <rte_swx_pipeline.h>

#include "acapella_p4.h"
#include "spec/spec.h"
#include "wire.h"

#define IN_FLIGHT 16 /* threads of DPDK's pipeline */

/* A frame on its way, in a buffer of its own. */
struct slot {
    uint8_t *buffer;
    uint32_t room;        /* bytes of the buffer behind the head room */
    uint32_t used;        /* of these, the first ones are not zero */
    uint32_t kept, given; /* bytes of the frame, and with header and padding */
    struct p4_frame frame;
    bool probe, busy;
};

struct port_in {
    struct p4 *p4;
    unsigned number;
};

struct port_out {
    struct p4 *p4;
    enum wire_out number;
};

/* Register arrays that a flip clears, and those that it sets (epoch.c). */
struct epoch_clear {
    char name[SPEC_NAME];
    uint32_t bank;
};

struct probe {
    uint32_t port, wire_bytes, kept_bytes;
    uint8_t bytes[256];
};

struct epochs {
    uint64_t period_ns;        /* 0: none */
    uint64_t next_ns, last_ns; /* the next boundary; the latest frame */
    bool begun;                /* there was a frame */
    uint64_t number;
    struct epoch_clear *clear;
    unsigned clears;
    struct probe *probes; /* frames whose report was the first of their flow in this epoch */
    unsigned probe_count, probe_room;
};

struct p4 {
    struct spec spec;
    struct p4_settings settings;
    struct rte_swx_pipeline *pipeline;
    struct compiled *compiled; /* NULL: interpreted */
    struct rte_swx_ctl_pipeline *control;
    struct port_in *in;
    struct port_out out[WIRE_OUTS];
    unsigned ins;
    unsigned in_flight; /* frames at once: more than 1 only where none can overtake another */
    unsigned busy;
    uint32_t head_room, reach;
    struct slot slot[IN_FLIGHT];
    struct slot *waiting[IN_FLIGHT]; /* not taken by the pipeline yet, in order */
    unsigned first_waiting, waiting_count;
    bool failed;
    bool uncommitted; /* entries of tables wait for p4_commit */
    struct p4_counts counts;
    uint64_t cpu_ns; /* in p4_process and p4_end */
    char *reasons[P4_REASONS];
    struct epochs epochs;
    uint8_t *report; /* room for a report and its ICRC */
    uint32_t report_room;
};

/* Puts one frame in and runs the pipeline until there is room for the next. */
int p4_push(struct p4 *p4, const struct p4_frame *frame, bool probe, struct fault *fault);
/* CPU time of this thread: what other programs take of a shared machine is none of the pipeline's. */
uint64_t p4_cpu_ns(void);

/* Until no frame is under way. */
int p4_drain(struct p4 *p4, struct fault *fault);

/* epoch.c: before a frame of this time; what a report said of its frame. */
int p4_epochs_until(struct p4 *p4, uint64_t ts_ns, struct fault *fault);
void p4_epochs_note(struct p4 *p4, const struct slot *slot, const struct p4_verdict *report);
int p4_epochs_end(struct p4 *p4, struct fault *fault);
void p4_epochs_free(struct p4 *p4);

#endif
