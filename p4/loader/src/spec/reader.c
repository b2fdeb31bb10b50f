#include "spec/reader.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define BLANK " \t\r\f\v"

int p4_spec_fail(const struct spec *spec, unsigned line, struct fault *fault, const char *format, ...) {
    char text[384];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *at = text; *at; ++at) { /* do not print control characters */
        *at = *at >= ' ' && *at <= '~' ? *at : '?';
    }
    return fail(fault, "%.100s:%u: %s", spec->path, line, text);
}

int p4_reader_memory(struct reader *reader) { return REFUSE(reader, "out of memory"); }

static bool starts_comment(const char *word) {
    return word[0] == '#' || word[0] == ';' || (word[0] == '/' && word[1] == '/');
}

int p4_reader_next(struct reader *reader) {
    while (reader->next) {
        char *line = strsep(&reader->next, "\n");
        char *rest = NULL;
        ++reader->line;
        reader->words = 0;
        for (char *word = strtok_r(line, BLANK, &rest); word && !starts_comment(word);
             word = strtok_r(NULL, BLANK, &rest)) {
            if (strlen(word) >= SPEC_NAME) {
                return REFUSE(reader, "%.40s...: longer than %d characters; shorten the name in the .p4",
                              word, SPEC_NAME - 1);
            }
            if (reader->words == LINE_WORDS) {
                return REFUSE(reader, "more than %d words on a line; is this a .spec of p4c-dpdk?",
                              LINE_WORDS);
            }
            reader->word[reader->words++] = word;
        }
        if (reader->words) {
            return 1;
        }
    }
    return 0;
}

int p4_reader_next_in(struct reader *reader, const char *block, unsigned opened) {
    const int found = p4_reader_next(reader);
    if (found == 0) {
        return p4_spec_fail(reader->spec, opened, reader->fault,
                            "%s: the file ends before its }; compile it again", block);
    }
    return found < 0 ? -1 : !(reader->words == 1 && is(reader->word[0], "}"));
}

bool p4_reader_is(const struct reader *reader, unsigned words, const char *const pattern[]) {
    if (reader->words != words) {
        return false;
    }
    for (unsigned i = 0; i < words; ++i) {
        if (pattern[i] && !is(reader->word[i], pattern[i])) {
            return false;
        }
    }
    return true;
}

int p4_reader_malformed(struct reader *reader, const char *form) {
    return REFUSE(reader, "%.60s: malformed; it has the form: %s", reader->word[0], form);
}

int p4_reader_number(struct reader *reader, const char *word, uint64_t max, uint64_t *to) {
    char *end = NULL;
    errno = 0;
    const unsigned long long value = strtoull(word, &end, 0);
    if (*word < '0' || *word > '9' || *end || errno || value > max) {
        return REFUSE(reader, "%s: not a number from 0 to %llu", word, (unsigned long long)max);
    }
    *to = value;
    return 0;
}

int p4_reader_number32(struct reader *reader, const char *word, uint32_t *to) {
    uint64_t value = 0;
    if (p4_reader_number(reader, word, UINT32_MAX, &value) != 0) {
        return -1;
    }
    *to = (uint32_t)value;
    return 0;
}
