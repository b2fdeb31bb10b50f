/* A queue's sequence of files: when the next begins, what it is called, and that none is without head or
 * tail. */
#ifndef ACAPELLA_OUTPUT_H
#define ACAPELLA_OUTPUT_H

#include "counts.h"
#include "writer/store.h"

struct output_settings {
    const char *stem, *extension; /* STEM[-qQUEUE][-NUMBER].EXTENSION */
    bool many_queues;
    uint64_t rotate_bytes, rotate_ns; /* 0: never; the time is that of the stamps */
    bool wait;                        /* for room, instead of dropping */
    const struct format *format;
    const struct store_kind *kind;
    struct store_settings store;
    struct file_facts facts;
};

struct output;

enum put_result { PUT_DONE, PUT_FULL, PUT_FAILED };

/* Opens the first file, so that a capture of nothing is a whole file too. */
struct output *output_open(const struct output_settings *settings, unsigned queue, struct counts *counts,
                           struct fault *fault);

/* `now_ns`: of a monotonic clock. PUT_FAILED also where no next file could be opened: see fault. */
enum put_result output_put(struct output *output, const struct frame *frame, struct fault *fault);

/* After each burst, whose frames may go then, and now and then without one. -1: it failed. */
int output_burst(struct output *output, uint64_t now_ns);

/* Ends the last file and frees the output; every file has been handed over then. */
void output_close(struct output *output);

#endif
