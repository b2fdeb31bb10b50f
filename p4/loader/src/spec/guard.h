/* A block of instructions as text for DPDK, made safe where DPDK checks nothing at run time.
 *
 * tx reads its port from the metadata and indexes an array with it; extract of a varbit takes as many bytes
 * as the metadata say. Both get a comparison in front, which changes nothing for a value that is in bounds.
 */
#ifndef ACAPELLA_P4_GUARD_H
#define ACAPELLA_P4_GUARD_H

#include "spec/spec.h"

struct guarded {
    struct arena arena;
    const char **texts;
    const char **jump; /* the label that it jumps to, NULL: none */
    unsigned *line;
    unsigned count;
};

/* A field of the metadata for such constants, where there are any; -1: see fault. Before any p4_guard. */
int p4_guard_prepare(struct spec *spec, struct fault *fault);

/* -1: see fault. */
int p4_guard(struct guarded *guarded, const struct spec *spec, const struct spec_block *block,
             struct fault *fault);
void p4_guarded_free(struct guarded *guarded);

/* The label that an instruction jumps to; NULL: it goes on to the next one, or ends. */
const char *p4_jump(const struct spec_instruction *instruction);

#endif
