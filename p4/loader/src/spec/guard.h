/* Adds guards to a block of instructions, because DPDK does not check bounds at run time: tx uses a port from
 * the metadata as an index, and extract of a varbit uses a length from the metadata. A comparison is put
 * before both, which does not change values within bounds. */
#ifndef ACAPELLA_P4_GUARD_H
#define ACAPELLA_P4_GUARD_H

#include "spec/spec.h"

struct guarded {
    struct arena arena;
    const char **texts;
    const char **jump; /* label of the jump, NULL: none */
    unsigned *line;
    unsigned count;
};

/* Call before p4_guard: adds a field of the metadata for constants of regwr and regadd, if there are any; -1:
 * see fault. */
int p4_guard_prepare(struct spec *spec, struct fault *fault);

/* -1: see fault. */
int p4_guard(struct guarded *guarded, const struct spec *spec, const struct spec_block *block,
             struct fault *fault);
void p4_guarded_free(struct guarded *guarded);

/* Returns the label that an instruction jumps to; NULL: it continues with the next one, or ends. */
const char *p4_jump(const struct spec_instruction *instruction);

#endif
