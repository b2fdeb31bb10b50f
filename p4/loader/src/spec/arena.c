#include "spec/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct arena_block {
    struct arena_block *next;
    max_align_t bytes[];
};

void *p4_arena_allocate(struct arena *arena, size_t bytes) {
    struct arena_block *block = bytes < SIZE_MAX / 2 ? calloc(1, sizeof *block + bytes) : NULL;
    if (!block) {
        return NULL;
    }
    block->next = arena->first;
    arena->first = block;
    return block->bytes;
}

void *p4_arena_grow(struct arena *arena, void *elements, size_t count, size_t bytes) {
    if (count & (count - 1)) {
        return elements;
    }
    void *larger = p4_arena_allocate(arena, (count ? count * 2 : 1) * bytes);
    if (larger && count) {
        memcpy(larger, elements, count * bytes);
    }
    return larger;
}

void p4_arena_free(struct arena *arena) {
    while (arena->first) {
        struct arena_block *next = arena->first->next;
        free(arena->first);
        arena->first = next;
    }
}
