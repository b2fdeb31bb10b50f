/* The number of frames by outcome, as JSON. */
#ifndef ACAPELLA_P4_STATISTICS_H
#define ACAPELLA_P4_STATISTICS_H

#include "command/input.h"
#include "command/options.h"
#include "command/output.h"

struct statistics {
    const struct options *options;
    const struct p4 *p4;
    const struct output *output;
    const struct input *input;
    const char *stopped_by; /* end, SIGTERM, ... */
};

/* A function for write_and_publish; its argument is a struct statistics. */
int p4_statistics_write(FILE *to, const void *statistics);

#endif
