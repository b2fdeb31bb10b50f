/* Checks that DPDK does not make: each frame has to leave the pipeline and to stay within its buffer. */
#ifndef ACAPELLA_P4_VERIFY_H
#define ACAPELLA_P4_VERIFY_H

#include "spec/spec.h"

struct verify_limits {
    uint32_t reach;   /* bytes of a frame that the program may read */
    uint32_t emitted; /* bytes that it may add in front */
    bool waits;       /* it has instructions that yield to other frames, which could overtake */
};

/* -1: a label that is missing or duplicate, a loop, a header that is emitted twice: see fault. */
int p4_verify(const struct spec *spec, struct verify_limits *limits, struct fault *fault);

#endif
