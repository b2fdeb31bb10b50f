/* libacapella_p4: a P4 program (.spec of p4c-dpdk) that runs over frames in memory, on DPDK's software
 * pipeline.
 *
 * struct p4 *p4 = p4_load(&settings, &fault)     parse, check, build; EAL has been initialized by then
 * p4_control(p4, "control.txt", &fault)          tables, registers, names of drop reasons
 * p4_process(p4, frames, n, &fault)              each frame comes to settings.take once: sent, or with its
 * reason p4_end(p4, &fault)                             what an epoch still has to report p4_free(p4)
 *
 * One thread at a time. What travels between the loader and a program (both headers) is in wire.h. */
#ifndef ACAPELLA_P4_H
#define ACAPELLA_P4_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/fault.h"

#define P4_PORTS 64
#define P4_REASONS 256
#define P4_FRAME_MAX 262144 /* bytes of a frame: what pcap takes for no limit */

struct p4;

/* A frame as it was received. */
struct p4_frame {
    uint64_t ts_ns;       /* since 1970-01-01 UTC */
    uint32_t wire_bytes;  /* without FCS */
    uint32_t kept_bytes;  /* of these, the first ones */
    uint32_t port;        /* below settings.ports */
    bool untimed;         /* it has no time, or none that is plausible: programs with epochs do not get it */
    const uint8_t *bytes; /* read until p4_process returns */
    void *owner;          /* passed through to its p4_verdict */
};

enum p4_kind { P4_FRAME = 0, P4_REPORT = 1 };

/* What became of a frame, besides the program's own reasons (0..255). */
enum p4_outcome {
    P4_SENT,
    P4_SUNK,       /* to the sink; `reason` says why */
    P4_DROPPED,    /* drop_packet(), which tells no reason */
    P4_WRONG_PORT, /* sent to a port that there is not */
    P4_HEADERLESS, /* sent without the loader's header, or with lengths that cannot be */
    P4_UNTIMED,    /* a frame without a time, and a program with epochs, which did not get it */
    P4_OUTCOMES,
};

struct p4_verdict {
    enum p4_outcome outcome;
    uint8_t kind, reason;
    bool probe; /* of a frame that the loader put in */
    bool clone; /* a mirrored copy, besides the frame itself */
    uint64_t ts_ns;
    uint32_t wire_bytes, port, sequence, hash;
    const uint8_t *bytes; /* P4_SENT: what to send, reports with their ICRC; until take returns */
    uint32_t length;
    void *owner; /* of the frame; NULL for a probe's */
};

typedef void (*p4_take)(void *user, const struct p4_verdict *verdict);

struct p4_settings {
    const char *spec;    /* path */
    const char *library; /* path of its compiled pipeline, from p4_generate; NULL: interpret */
    unsigned ports;      /* of input: 1..P4_PORTS */
    p4_take take;
    void *user;
};

/* in + probes + clones = sent + sunk[...] + dropped + wrong_port + headerless + untimed */
struct p4_counts {
    uint64_t in, in_bytes, in_of_port[P4_PORTS];
    uint64_t probes, epochs, clones;
    uint64_t outcome[P4_OUTCOMES];
    uint64_t sunk[P4_REASONS];
    uint64_t sent_bytes, reports;
    uint64_t pipeline_ns; /* CPU time in p4_process and p4_end, with that of `take`, without control_ns */
    uint64_t control_ns;  /* CPU time of clearing banks */
};

/* Bytes of EAL memory (-m) that the program of this spec needs; 0: see fault. Needs no EAL. */
uint64_t p4_memory(const char *spec, struct fault *fault);

/* NULL: see fault, FILE:LINE: what; what to do. */
struct p4 *p4_load(const struct p4_settings *settings, struct fault *fault);
void p4_free(struct p4 *p4);

/* A file of control lines; -1 at the first that is wrong: see fault. */
int p4_control(struct p4 *p4, const char *path, struct fault *fault);

/* One line; its answer, if it has one, as a line without newline into `answer`. */
int p4_command(struct p4 *p4, const char *line, char *answer, size_t size, struct fault *fault);

/* -1 where the program does not give a frame back; else each of them has been taken. */
int p4_process(struct p4 *p4, const struct p4_frame *frames, unsigned count, struct fault *fault);
int p4_end(struct p4 *p4, struct fault *fault);

const struct p4_counts *p4_counts(const struct p4 *p4);
bool p4_balanced(const struct p4 *p4);

/* Name of a drop reason, `reason-N` where nobody gave it one. */
const char *p4_reason(const struct p4 *p4, uint8_t reason);

/* All registers, or that one alone, as JSON: {"NAME": [VALUE, ...], ...}. */
int p4_dump_registers(const struct p4 *p4, FILE *to);

#endif
