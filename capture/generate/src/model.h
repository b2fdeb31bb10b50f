/* A compiled model, which acapella_capture/generate/compiled.py writes: a text file with one line per object.
 */
#ifndef ACAPELLA_GENERATE_MODEL_H
#define ACAPELLA_GENERATE_MODEL_H

#include "common/fault.h"
#include "flow.h"

struct draft;

struct model {
    uint64_t rate_bps; /* of the port; 0 if unlimited */
    struct flow *flow;
    uint32_t flows, room; /* room: capacity of `flow` */
    struct draft *draft;  /* of the latest flow, while it is read */
    struct list *list;
    uint32_t lists;
    uint32_t longest; /* upper limit of the length of packets */
};

/* Reads a model. Returns 0, or -1 with the reason in fault. Call model_free in any case. */
int model_read(struct model *model, const char *path, struct fault *fault);
void model_free(struct model *model);

#endif
