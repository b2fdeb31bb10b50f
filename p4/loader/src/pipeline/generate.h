/* Generates the C code of a program with DPDK's pipeline code generator, from the guarded instructions. */
#ifndef ACAPELLA_P4_GENERATE_H
#define ACAPELLA_P4_GENERATE_H

#include <stdio.h>

#include "spec/spec.h"

/* Writes the C code of the program at `path` to `to`, after a line with DPDK's version. Returns 0, or -1 with
 * the reason in fault. Needs EAL. The code includes rte_swx_pipeline_internal.h of DPDK's source. */
int p4_generate(const char *path, FILE *to, struct fault *fault);

#endif
