/* Memory that is freed as a whole, such as the contents of a .spec. */
#ifndef ACAPELLA_P4_ARENA_H
#define ACAPELLA_P4_ARENA_H

#include <stddef.h>

struct arena {
    struct arena_block *first;
};

/* Allocates zeroed memory. Returns NULL if out of memory. */
void *p4_arena_allocate(struct arena *arena, size_t bytes);

/* Makes room for one more element after `count`: copies the elements to a block of twice the size if `count`
 * is 0 or a power of 2. */
void *p4_arena_grow(struct arena *arena, void *elements, size_t count, size_t bytes);

void p4_arena_free(struct arena *arena);

#endif
