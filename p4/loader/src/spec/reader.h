/* Reads a .spec file line by line. */
#ifndef ACAPELLA_P4_READER_H
#define ACAPELLA_P4_READER_H

#include <string.h>

#include "spec/spec.h"

#define LINE_WORDS 64

/* The words of a line, and the start of the next line. */
struct reader {
    struct spec *spec;
    struct fault *fault;
    char *next; /* NULL at the end of the file */
    unsigned line;
    char *word[LINE_WORDS];
    unsigned words;
};

#define REFUSE(reader, ...) p4_spec_fail((reader)->spec, (reader)->line, (reader)->fault, __VA_ARGS__)

#define MORE(reader, array, count) \
    ((array) = p4_arena_grow(&(reader)->spec->arena, (array), (count), sizeof *(array)))

#define LINE_IS(reader, ...)                                                                  \
    p4_reader_is((reader), sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *), \
                 (const char *const[]){__VA_ARGS__})

static inline bool is(const char *word, const char *other) { return strcmp(word, other) == 0; }

/* Reads the next line that has words. Returns 1, 0 at the end of the file, or -1 with the reason in fault. */
int p4_reader_next(struct reader *reader);

/* Reads the next line of a block. Returns 1, 0 at its }, or -1 with the reason in fault. */
int p4_reader_next_in(struct reader *reader, const char *block, unsigned opened);

/* Returns true if the line has these words; NULL matches any word. */
bool p4_reader_is(const struct reader *reader, unsigned words, const char *const pattern[]);

/* Reports the expected form of a line; returns -1. */
int p4_reader_malformed(struct reader *reader, const char *form);
int p4_reader_memory(struct reader *reader);

/* Parses a number up to `max`. Returns 0, or -1 with the reason in fault. */
int p4_reader_number(struct reader *reader, const char *word, uint64_t max, uint64_t *to);
int p4_reader_number32(struct reader *reader, const char *word, uint32_t *to);

/* table or learner, and selector: spec_table.c. */
int p4_spec_read_table(struct reader *reader, bool learner);
int p4_spec_read_selector(struct reader *reader);

#endif
