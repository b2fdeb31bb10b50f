/* A program compiled to a shared library: DPDK supports only ring ports for it, so frames enter and leave as
 * mbufs in rings. */
#ifndef ACAPELLA_P4_COMPILED_H
#define ACAPELLA_P4_COMPILED_H

#include "pipeline/program.h"

struct compiled;

/* Builds the pipeline from p4->settings.library, with p4->ins input ports. Returns 0, or -1 with the reason
 * in fault. */
int p4_compiled_load(struct p4 *p4, struct fault *fault);
/* Call after rte_swx_pipeline_free. */
void p4_compiled_free(struct compiled *compiled);

/* Moves the waiting frames into the rings. */
void p4_compiled_enqueue(struct p4 *p4);
/* Takes the frames that the pipeline returned, in order of arrival. */
void p4_compiled_take(struct p4 *p4);

#endif
