/* Reads the bytes of a packet, never beyond those that were captured. */
#ifndef ACAPELLA_CURSOR_H
#define ACAPELLA_CURSOR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct cursor {
    const uint8_t *bytes;
    uint32_t size; /* readable bytes, at most the captured ones */
    uint32_t at;   /* at most `size` */
};

/* Returns true if `count` bytes can be read at the cursor. */
static inline bool cursor_has(const struct cursor *cursor, uint32_t count) {
    return count <= cursor->size - cursor->at;
}

/* Moves the cursor by `count` bytes. Returns false, and does not move it, if there are fewer. */
static inline bool cursor_skip(struct cursor *cursor, uint32_t count) {
    if (!cursor_has(cursor, count)) {
        return false;
    }
    cursor->at += count;
    return true;
}

/* Limits the readable bytes to `count` bytes after the cursor, if there are more. */
static inline void cursor_limit(struct cursor *cursor, uint32_t count) {
    if (cursor_has(cursor, count)) {
        cursor->size = cursor->at + count;
    }
}

/* Return the value `offset` bytes after the cursor; 0 if it is not readable. */
static inline uint8_t cursor_u8(const struct cursor *cursor, uint32_t offset) {
    const uint32_t left = cursor->size - cursor->at;
    return offset < left ? cursor->bytes[cursor->at + offset] : 0;
}

static inline uint16_t cursor_be16(const struct cursor *cursor, uint32_t offset) {
    const uint32_t left = cursor->size - cursor->at;
    if (left < 2 || offset > left - 2) {
        return 0;
    }
    uint16_t big;
    memcpy(&big, cursor->bytes + cursor->at + offset, sizeof big);
    return __builtin_bswap16(big);
}

#endif
