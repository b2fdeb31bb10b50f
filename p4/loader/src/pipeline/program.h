/* A loaded program, shared by the parts of the library. */
#ifndef ACAPELLA_P4_PROGRAM_H
#define ACAPELLA_P4_PROGRAM_H

#include <rte_swx_ctl.h>
#include <rte_swx_pipeline.h>

#include "acapella_p4.h"
#include "spec/spec.h"
#include "wire.h"

#define IN_FLIGHT 16 /* threads of the DPDK pipeline */

/* A frame in the pipeline, in its own buffer. */
struct slot {
    uint8_t *buffer;
    uint32_t room;        /* bytes of the buffer after the headroom */
    uint32_t used;        /* bytes of the buffer that may be nonzero */
    uint32_t kept, total; /* bytes of the frame; bytes of header, frame and padding */
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

/* A register array that is cleared at the end of an epoch. */
struct epoch_clear {
    char name[SPEC_NAME];
    uint32_t bank; /* cells of a bank */
};

struct probe {
    uint32_t port, wire_bytes, kept_bytes;
    uint8_t bytes[256];
};

struct epochs {
    uint64_t period_ns;        /* 0: none */
    uint64_t next_ns, last_ns; /* the next boundary; time of the latest frame */
    bool begun;                /* a frame was processed */
    uint64_t number;
    struct epoch_clear *clear;
    unsigned clears;
    struct probe *probes; /* frames whose report was the first of its flow in this epoch */
    unsigned probe_count, probe_room;
};

struct p4 {
    struct spec spec;
    struct p4_settings settings;
    struct rte_swx_pipeline *pipeline;
    struct compiled *compiled; /* NULL if interpreted */
    struct rte_swx_ctl_pipeline *control;
    struct port_in *in;
    struct port_out out[WIRE_OUTS];
    unsigned ins;
    unsigned in_flight; /* frames in the pipeline at once: more than 1 only if none can overtake another */
    unsigned busy;
    uint32_t head_room, reach;
    struct slot slot[IN_FLIGHT];
    struct slot *waiting[IN_FLIGHT]; /* waiting for the pipeline, in order */
    unsigned first_waiting, waiting_count;
    bool failed;
    bool uncommitted; /* changes of table entries wait for p4_commit */
    struct p4_counts counts;
    uint64_t cpu_ns; /* during p4_process and p4_end */
    char *reasons[P4_REASONS];
    struct epochs epochs;
    uint8_t *report; /* buffer for a report and its ICRC */
    uint32_t report_room;
};

/* Runs the pipeline until there is room for a frame, and inserts it. */
int p4_push(struct p4 *p4, const struct p4_frame *frame, bool probe, struct fault *fault);
/* Returns the CPU time of this thread, which excludes other programs on the machine. */
uint64_t p4_cpu_ns(void);

/* Runs the pipeline until it is empty. */
int p4_drain(struct p4 *p4, struct fault *fault);

/* epoch.c: call p4_epochs_until before a frame of this time, and p4_epochs_note after a report, or after a
 * frame that went to the sink. */
int p4_epochs_until(struct p4 *p4, uint64_t ts_ns, struct fault *fault);
void p4_epochs_note(struct p4 *p4, const struct slot *slot, const struct p4_verdict *report);
int p4_epochs_end(struct p4 *p4, struct fault *fault);
void p4_epochs_free(struct p4 *p4);

#endif
