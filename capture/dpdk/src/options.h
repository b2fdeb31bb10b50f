/* The command line. */
#ifndef ACAPELLA_OPTIONS_H
#define ACAPELLA_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/eal.h"
#include "common/fault.h"
#include "common/files/format.h"
#include "common/ports/receive_port.h"
#include "writer/store.h"

#define OPTIONS_QUEUES 64

struct options {
    struct eal_settings eal; /* frames are captured from the first device; memory 0: as needed */
    const char *write;       /* PATH.pcap or PATH.pcapng */
    const char *accounts;    /* if NULL, the name of the capture with .json */
    const char *filter;
    const char *p4, *p4_control; /* P4 program (.spec) or NULL; its control file or NULL */
    uint64_t p4_memory;          /* EAL memory of the P4 program, bytes */
    const struct format *format;
    const struct store_kind *writer;
    bool writer_chosen; /* set by --writer: fail if it cannot be used */
    unsigned queues, depth, burst;
    uint32_t snaplen; /* 0: whole frames */
    uint32_t max_frame;
    uint64_t sample; /* one in n */
    bool sample_by_hash, spin, wait;
    bool hash, hash_chosen; /* hash_chosen is false: hash if the format supports it */
    enum clock_choice clock;
    uint64_t rotate_bytes, preallocate, frames;
    double rotate_s, duration_s, idle_s, flush_s;
    uint32_t generate; /* length of generated frames, bytes; 0 if none */
    double rate;       /* generated frames per second; 0 if unlimited */
    unsigned buffers;
    uint64_t buffer_bytes;
};

/* Returns 0, 1 if help or version was printed, or -1 with the reason in fault. */
int options_read(struct options *options, int argc, char **argv, struct fault *fault);

#endif
