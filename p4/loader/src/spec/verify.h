/* What DPDK does not look at: whether each frame comes out, and stays within its buffer on the way. */
#ifndef ACAPELLA_P4_VERIFY_H
#define ACAPELLA_P4_VERIFY_H

#include "spec/spec.h"

struct verify_facts {
    uint32_t reach;   /* bytes from a frame's start that the program may read */
    uint32_t emitted; /* bytes that it may put in front */
    bool waits;       /* it gives its turn to other frames' threads on the way, so that they could overtake */
};

/* -1: a label that is not there or twice, a circle, a header that is emitted too often: see fault. */
int p4_verify(const struct spec *spec, struct verify_facts *facts, struct fault *fault);

#endif
