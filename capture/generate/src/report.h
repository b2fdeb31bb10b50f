/* Prints a report of the generated packets as one JSON object (capture/generate/README.md). */
#ifndef ACAPELLA_GENERATE_REPORT_H
#define ACAPELLA_GENERATE_REPORT_H

#include <stdio.h>

#include "model.h"
#include "transmission.h"

/* `transmission` is NULL for a file. */
void report_print(FILE *to, const struct model *model, int64_t start_ns,
                  const struct transmission *transmission);

#endif
