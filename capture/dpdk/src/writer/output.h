/* The sequence of files of a queue: names, rotation, and the header and end of each file. */
#ifndef ACAPELLA_OUTPUT_H
#define ACAPELLA_OUTPUT_H

#include "counts.h"
#include "writer/store.h"

struct output_settings {
    const char *stem, *extension; /* STEM[-qQUEUE][-NUMBER].EXTENSION */
    bool many_queues;
    uint64_t rotate_bytes, rotate_ns; /* 0: never; rotate_ns refers to timestamps of frames */
    bool wait;                        /* wait for room instead of dropping frames */
    const struct format *format;
    const struct store_kind *kind;
    struct store_settings store;
    struct file_info info;
};

struct output;

enum put_result { PUT_DONE, PUT_FULL, PUT_FAILED };

/* Opens the first file, so that a capture without frames is a valid file. */
struct output *output_open(const struct output_settings *settings, unsigned queue, struct counts *counts,
                           struct fault *fault);

/* Writes a frame. Returns PUT_FAILED if writing failed, with the reason in `error` of the file, or if the
 * next file cannot be opened, with the reason in fault. */
enum put_result output_put(struct output *output, const struct frame *frame, struct fault *fault);

/* Call it after each burst, whose frames may then be freed, and regularly if no frames arrive. `now_ns` is
 * monotonic. Returns -1 if writing failed. */
int output_burst(struct output *output, uint64_t now_ns);

/* Ends the last file and frees the output; every file is passed to the main thread. */
void output_close(struct output *output);

#endif
