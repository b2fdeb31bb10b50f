/* Reads times and lengths of the frames of a capture, from which a model takes gaps and sizes. */
#ifndef ACAPELLA_GENERATE_TRACE_H
#define ACAPELLA_GENERATE_TRACE_H

#include <stdio.h>

#include "common/fault.h"

/* Writes two int64_t for each frame that has a timestamp: time in ns, length in bytes. Returns 0, or -1 with
 * the reason in fault. */
int trace_write(FILE *to, const char *path, struct fault *fault);

#endif
