/* Checks that DPDK does not perform: each frame must leave the pipeline and stay within its buffer. */
#ifndef ACAPELLA_P4_VERIFY_H
#define ACAPELLA_P4_VERIFY_H

#include "spec/spec.h"

struct verify_limits {
    uint32_t reach;   /* bytes of a frame that the program may read */
    uint32_t emitted; /* bytes that it may add in front */
    bool waits;       /* it has instructions that yield to other frames, which could overtake */
};

/* Returns 0, or -1 with the reason in fault, for example for a missing or duplicate label, a loop, or a
 * header that is emitted twice. */
int p4_verify(const struct spec *spec, struct verify_limits *limits, struct fault *fault);

#endif
