/* Memory that goes all at once: what a .spec said. */
#ifndef ACAPELLA_P4_ARENA_H
#define ACAPELLA_P4_ARENA_H

#include <stddef.h>

struct arena {
    struct arena_block *first;
};

/* Zeroed; NULL: out of memory. */
void *p4_arena(struct arena *arena, size_t bytes);

/* Room for one more element behind `count` of them: a copy of twice the size where count is 0 or a power
 * of 2. */
void *p4_arena_more(struct arena *arena, void *elements, size_t count, size_t bytes);

void p4_arena_free(struct arena *arena);

#endif
