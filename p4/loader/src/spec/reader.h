/* A .spec file line by line, for the parts of the parser. */
#ifndef ACAPELLA_P4_READER_H
#define ACAPELLA_P4_READER_H

#include <string.h>

#include "spec/spec.h"

#define LINE_WORDS 64

/* A line's words, and where the next begins. */
struct reader {
    struct spec *spec;
    struct fault *fault;
    char *next; /* NULL: the file has ended */
    unsigned line;
    char *word[LINE_WORDS];
    unsigned words;
};

#define REFUSE(reader, ...) p4_spec_fail((reader)->spec, (reader)->line, (reader)->fault, __VA_ARGS__)

#define MORE(reader, array, count) \
    ((array) = p4_arena_more(&(reader)->spec->arena, (array), (count), sizeof *(array)))

#define LINE_IS(reader, ...)                                                                  \
    p4_reader_is((reader), sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *), \
                 (const char *const[]){__VA_ARGS__})

static inline bool is(const char *word, const char *other) { return strcmp(word, other) == 0; }

/* The next line with words on it: 1, 0 at the end of the file, -1: see fault. */
int p4_reader_next(struct reader *reader);

/* The next line of a block: 1, 0 at its }, -1: see fault. */
int p4_reader_next_in(struct reader *reader, const char *block, unsigned opened);

/* Whether the line has these words; NULL stands for any. */
bool p4_reader_is(const struct reader *reader, unsigned words, const char *const pattern[]);

/* -1, and why. */
int p4_reader_malformed(struct reader *reader, const char *form);
int p4_reader_memory(struct reader *reader);

/* 0, or -1: not a number up to `most`. */
int p4_reader_number(struct reader *reader, const char *word, uint64_t most, uint64_t *to);
int p4_reader_number32(struct reader *reader, const char *word, uint32_t *to);

/* table or learner, and selector: spec_table.c. */
int p4_spec_read_table(struct reader *reader, bool learner);
int p4_spec_read_selector(struct reader *reader);

#endif
