/* Adds guards to a block of instructions, because DPDK does not check bounds at run time: tx uses a port from
 * the metadata as an index, and extract of a varbit uses a length from the metadata. A guard compares the
 * value before the instruction; it does not change values within bounds. */
#ifndef ACAPELLA_P4_GUARD_H
#define ACAPELLA_P4_GUARD_H

#include "spec/spec.h"

struct guarded {
    struct arena arena;
    const char **texts;
    const char **jump; /* label of the jump; NULL if none */
    unsigned *line;
    unsigned count;
};

/* Call before p4_guard: adds a metadata field for constants of regwr and regadd, if any. Returns 0, or -1
 * with the reason in fault. */
int p4_guard_prepare(struct spec *spec, struct fault *fault);

/* Returns 0, or -1 with the reason in fault. */
int p4_guard(struct guarded *guarded, const struct spec *spec, const struct spec_block *block,
             struct fault *fault);
void p4_guarded_free(struct guarded *guarded);

/* Returns the label that an instruction jumps to, or NULL if it continues with the next one or ends. */
const char *p4_jump(const struct spec_instruction *instruction);

#endif
