/* What DPDK does not look at: whether each frame comes out, and stays within its buffer on the way. */
#ifndef ACAPELLA_P4_CHECK_H
#define ACAPELLA_P4_CHECK_H

#include "spec.h"

struct check_facts {
    uint32_t reach;   /* bytes from a frame's start that the program may read */
    uint32_t emitted; /* bytes that it may put in front */
    bool waits;       /* it gives its turn to other frames' threads on the way, so that they could overtake */
};

/* -1: a label that is not there or twice, a circle, a header that is emitted too often: see fault. */
int p4_check(const struct spec *spec, struct check_facts *facts, struct fault *fault);

#endif
