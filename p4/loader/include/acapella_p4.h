/* libacapella_p4: runs a P4 program (.spec of p4c-dpdk) over frames in memory, on DPDK's software pipeline.
 *
 * struct p4 *p4 = p4_load(&settings, &fault)   parses, checks and builds; EAL is initialized by the caller
 * p4_control(p4, "control.txt", &fault)        sets tables, registers, names of drop reasons
 * p4_process(p4, frames, n, &fault)            passes each frame to settings.on_verdict, with its outcome
 * p4_end(p4, &fault)                           ends the epoch: probes and their reports
 * p4_free(p4)
 *
 * Not thread-safe. wire.h describes the headers between the loader and a program. */
#ifndef ACAPELLA_P4_H
#define ACAPELLA_P4_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/fault.h"

#define P4_PORTS 64
#define P4_REASONS 256
#define P4_FRAME_MAX 262144 /* longest frame in bytes: pcap's value for no limit */

struct p4;

/* A received frame. */
struct p4_frame {
    uint64_t ts_ns;       /* since 1970-01-01 UTC */
    uint32_t wire_bytes;  /* without FCS */
    uint32_t kept_bytes;  /* captured length */
    uint32_t port;        /* below settings.ports */
    bool untimed;         /* without a plausible timestamp: dropped by programs with epochs */
    const uint8_t *bytes; /* valid until p4_process returns */
    void *owner;          /* passed through to its p4_verdict */
};

enum p4_kind { P4_FRAME = 0, P4_REPORT = 1 };

/* Outcome of a frame. Programs define drop reasons (0..255). */
enum p4_outcome {
    P4_SENT,
    P4_SUNK,       /* sent to the sink with `reason` */
    P4_DROPPED,    /* drop_packet(), without a reason */
    P4_WRONG_PORT, /* sent to a port that does not exist */
    P4_HEADERLESS, /* sent without the loader's header, or with impossible lengths */
    P4_UNTIMED,    /* a frame without a plausible timestamp, not passed to a program with epochs */
    P4_OUTCOMES,
};

struct p4_verdict {
    enum p4_outcome outcome;
    uint8_t kind, reason;
    bool probe; /* outcome of a probe, a frame that the loader inserted */
    bool clone; /* a mirrored copy */
    uint64_t ts_ns;
    uint32_t wire_bytes, port, sequence, hash;
    const uint8_t
        *bytes; /* P4_SENT: the frame to send, a report with its ICRC; valid until on_verdict returns */
    uint32_t length;
    void *owner; /* owner of the frame; NULL for a probe */
};

typedef void (*p4_verdict_handler)(void *user, const struct p4_verdict *verdict);

struct p4_settings {
    const char *spec;    /* path */
    const char *library; /* path of its compiled pipeline (p4_generate); NULL to interpret the spec */
    unsigned ports;      /* input ports: 1..P4_PORTS */
    p4_verdict_handler on_verdict;
    void *user;
};

/* in + probes + clones = sent + sunk[...] + dropped + wrong_port + headerless + untimed */
struct p4_counts {
    uint64_t in, in_bytes, in_of_port[P4_PORTS];
    uint64_t probes, epochs, clones;
    uint64_t outcome[P4_OUTCOMES];
    uint64_t sunk[P4_REASONS];
    uint64_t sent_bytes, reports;
    uint64_t pipeline_ns; /* CPU time of p4_process and p4_end, including `on_verdict`, without control_ns */
    uint64_t control_ns;  /* CPU time for clearing banks */
};

/* Returns the EAL memory (-m) for the program in bytes, or 0 with the reason in fault. Needs no EAL. */
uint64_t p4_memory(const char *spec, struct fault *fault);

/* Loads a program. Returns NULL on error, with FILE:LINE: error; remedy in fault. */
struct p4 *p4_load(const struct p4_settings *settings, struct fault *fault);
void p4_free(struct p4 *p4);

/* Executes a control file. Returns 0, or -1 with the reason in fault at the first invalid line. */
int p4_control(struct p4 *p4, const char *path, struct fault *fault);

/* Executes one line; writes its result, if any, to `result`, without a newline. */
int p4_command(struct p4 *p4, const char *line, char *result, size_t size, struct fault *fault);

/* Processes frames: each one is passed to `on_verdict`. Returns 0, or -1 with the reason in fault, for
 * example if the program does not return a frame. */
int p4_process(struct p4 *p4, const struct p4_frame *frames, unsigned count, struct fault *fault);
int p4_end(struct p4 *p4, struct fault *fault);

const struct p4_counts *p4_counts(const struct p4 *p4);
bool p4_balanced(const struct p4 *p4);

/* Returns the name of a drop reason, or `reason-N` if it has none. */
const char *p4_reason(const struct p4 *p4, uint8_t reason);

/* Writes all registers as JSON: {"NAME": [VALUE, ...], ...}. */
int p4_dump_registers(const struct p4 *p4, FILE *to);

#endif
