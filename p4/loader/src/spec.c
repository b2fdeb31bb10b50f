#include "spec.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX (16U << 20)
#define LINE_WORDS 64
#define BLANK " \t\r\f\v"

/* A line's words, and where the next begins. */
struct reader {
    struct spec *spec;
    struct fault *fault;
    char *next; /* NULL: the file has ended */
    unsigned line;
    char *word[LINE_WORDS];
    unsigned words;
};

int p4_spec_fail(const struct spec *spec, unsigned line, struct fault *fault, const char *format, ...) {
    char text[384];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *at = text; *at; ++at) { /* what is no text goes to no terminal */
        *at = *at >= ' ' && *at <= '~' ? *at : '?';
    }
    return fail(fault, "%.100s:%u: %s", spec->path, line, text);
}

#define REFUSE(reader, ...) p4_spec_fail((reader)->spec, (reader)->line, (reader)->fault, __VA_ARGS__)

static int out_of_memory(struct reader *reader) { return REFUSE(reader, "out of memory"); }

#define MORE(reader, array, count) \
    ((array) = p4_arena_more(&(reader)->spec->arena, (array), (count), sizeof *(array)))

static bool is(const char *word, const char *other) { return strcmp(word, other) == 0; }

static bool starts_comment(const char *word) {
    return word[0] == '#' || word[0] == ';' || (word[0] == '/' && word[1] == '/');
}

/* The next line with words on it: 1, 0 at the end of the file, -1: see fault. */
static int advance(struct reader *reader) {
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

/* The next line of a block: 1, 0 at its }, -1: see fault. */
static int advance_in(struct reader *reader, const char *block, unsigned opened) {
    const int found = advance(reader);
    if (found == 0) {
        return p4_spec_fail(reader->spec, opened, reader->fault,
                            "%s: the file ends before its }; compile it again", block);
    }
    return found < 0 ? -1 : !(reader->words == 1 && is(reader->word[0], "}"));
}

/* Whether the line has these words; NULL stands for any. */
static bool line_is(const struct reader *reader, unsigned words, const char *const pattern[]) {
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

#define LINE_IS(reader, ...)                                                             \
    line_is((reader), sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *), \
            (const char *const[]){__VA_ARGS__})

static int malformed(struct reader *reader, const char *form) {
    return REFUSE(reader, "%.60s: malformed; it has the form: %s", reader->word[0], form);
}

static int number(struct reader *reader, const char *word, uint64_t most, uint64_t *to) {
    char *end = NULL;
    errno = 0;
    const unsigned long long value = strtoull(word, &end, 0);
    if (*word < '0' || *word > '9' || *end || errno || value > most) {
        return REFUSE(reader, "%s: not a number from 0 to %llu", word, (unsigned long long)most);
    }
    *to = value;
    return 0;
}

static int number32(struct reader *reader, const char *word, uint32_t *to) {
    uint64_t value = 0;
    if (number(reader, word, UINT32_MAX, &value) != 0) {
        return -1;
    }
    *to = (uint32_t)value;
    return 0;
}

/* bit<N> or varbit<N>. */
static int field_type(struct reader *reader, const char *word, uint32_t *bits, bool *variable) {
    char digits[SPEC_NAME];
    uint64_t value = 0;
    *variable = strncmp(word, "varbit<", 7) == 0;
    const size_t head = *variable ? 7 : 4, size = strlen(word);
    if ((!*variable && strncmp(word, "bit<", 4) != 0) || size < head + 2 || word[size - 1] != '>') {
        return REFUSE(reader, "%s: no type of a field; it is bit<N> or varbit<N>", word);
    }
    memcpy(digits, word + head, size - head - 1);
    digits[size - head - 1] = '\0';
    if (number(reader, digits, 65536, &value) != 0) {
        return -1;
    }
    if (value == 0 || value % 8) {
        return REFUSE(reader, "%s: not a multiple of 8 bits, which is all that DPDK takes", word);
    }
    *bits = (uint32_t)value;
    return 0;
}

static int read_struct(struct reader *reader) {
    struct spec *spec = reader->spec;
    if (!LINE_IS(reader, "struct", NULL, "{")) {
        return malformed(reader, "struct NAME {");
    }
    if (p4_spec_struct(spec, reader->word[1])) {
        return REFUSE(reader, "struct %s: there is one of this name already", reader->word[1]);
    }
    if (!MORE(reader, spec->structs, spec->struct_count)) {
        return out_of_memory(reader);
    }
    struct spec_struct *made = &spec->structs[spec->struct_count];
    *made = (struct spec_struct){.name = reader->word[1], .line = reader->line};
    int more;
    while ((more = advance_in(reader, made->name, made->line)) > 0) {
        bool variable = false;
        uint32_t bits = 0;
        if (reader->words != 2) {
            return malformed(reader, "bit<N> NAME");
        }
        if (made->variable) {
            return REFUSE(reader, "%s: follows a varbit, which has to be the last field", reader->word[1]);
        }
        if (field_type(reader, reader->word[0], &bits, &variable) != 0) {
            return -1;
        }
        if (!MORE(reader, made->fields, made->count)) {
            return out_of_memory(reader);
        }
        made->fields[made->count++] = (struct spec_field){reader->word[1], bits};
        made->variable = variable;
        made->bits += bits;
    }
    ++spec->struct_count;
    return more;
}

static int read_header(struct reader *reader) {
    struct spec *spec = reader->spec;
    if (!LINE_IS(reader, "header", NULL, "instanceof", NULL)) {
        return malformed(reader, "header NAME instanceof STRUCT");
    }
    const struct spec_struct *type = p4_spec_struct(spec, reader->word[3]);
    if (!type) {
        return REFUSE(reader, "%s: there is no such struct above", reader->word[3]);
    }
    if (!MORE(reader, spec->headers, spec->header_count)) {
        return out_of_memory(reader);
    }
    spec->headers[spec->header_count++] = (struct spec_header){reader->word[1], reader->line, type};
    return 0;
}

static int read_metadata(struct reader *reader) {
    if (!LINE_IS(reader, "metadata", "instanceof", NULL)) {
        return malformed(reader, "metadata instanceof STRUCT");
    }
    if (reader->spec->metadata) {
        return REFUSE(reader, "metadata: said already in line %u", reader->spec->metadata_line);
    }
    reader->spec->metadata = p4_spec_struct(reader->spec, reader->word[2]);
    reader->spec->metadata_line = reader->line;
    return reader->spec->metadata ? 0 : REFUSE(reader, "%s: there is no such struct above", reader->word[2]);
}

/* LABEL : WORD ..., up to the block's }. */
static int read_block(struct reader *reader, struct spec_block *block, const char *name) {
    const unsigned opened = reader->line;
    int more;
    while ((more = advance_in(reader, name, opened)) > 0) {
        const bool labelled = reader->words > 1 && is(reader->word[1], ":");
        const unsigned first = labelled ? 2 : 0, words = reader->words - first;
        size_t length = reader->words;
        for (unsigned i = 0; i < reader->words; ++i) {
            length += strlen(reader->word[i]);
        }
        if (words == 0) {
            return REFUSE(reader, "%s: a label without an instruction", reader->word[0]);
        }
        if (reader->words > SPEC_WORDS || length > SPEC_INSTRUCTION) {
            return REFUSE(reader,
                          "an instruction of %u words and %zu characters; DPDK takes %d and %d; give it less "
                          "at once in the .p4",
                          reader->words, length - 1, SPEC_WORDS, SPEC_INSTRUCTION - 1);
        }
        if (!MORE(reader, block->instructions, block->count)) {
            return out_of_memory(reader);
        }
        struct spec_instruction *made = &block->instructions[block->count++];
        *made = (struct spec_instruction){.line = reader->line, .words = words};
        made->label = labelled ? reader->word[0] : NULL;
        for (unsigned i = 0; i < words; ++i) {
            made->word[i] = reader->word[first + i];
        }
    }
    if (more == 0 && block->count == 0) {
        return p4_spec_fail(reader->spec, opened, reader->fault, "%s: a block without instructions", name);
    }
    return more;
}

static int read_action(struct reader *reader) {
    struct spec *spec = reader->spec;
    const bool plain = LINE_IS(reader, "action", NULL, "args", "none", "{");
    if (!plain && !LINE_IS(reader, "action", NULL, "args", "instanceof", NULL, "{")) {
        return malformed(reader, "action NAME args none {, or: action NAME args instanceof STRUCT {");
    }
    if (p4_spec_action(spec, reader->word[1])) {
        return REFUSE(reader, "action %s: there is one of this name already", reader->word[1]);
    }
    if (!MORE(reader, spec->actions, spec->action_count)) {
        return out_of_memory(reader);
    }
    struct spec_action *made = &spec->actions[spec->action_count];
    *made = (struct spec_action){.name = reader->word[1], .line = reader->line};
    if (!plain && !(made->arguments = p4_spec_struct(spec, reader->word[4]))) {
        return REFUSE(reader, "%s: there is no such struct above", reader->word[4]);
    }
    if (read_block(reader, &made->body, made->name) != 0) {
        return -1;
    }
    ++spec->action_count;
    return 0;
}

static int read_array(struct reader *reader, struct spec_array **arrays, unsigned *count, bool meter) {
    if (meter ? !LINE_IS(reader, "metarray", NULL, "size", NULL)
              : !LINE_IS(reader, "regarray", NULL, "size", NULL, "initval", NULL)) {
        return malformed(reader, meter ? "metarray NAME size N" : "regarray NAME size N initval N");
    }
    struct spec_array made = {.name = reader->word[1], .line = reader->line};
    if (number32(reader, reader->word[3], &made.size) != 0 ||
        (!meter && number(reader, reader->word[5], UINT64_MAX, &made.initial) != 0)) {
        return -1;
    }
    if (made.size == 0 || made.size > 1U << 31) {
        return REFUSE(reader, "%s: its size has to be from 1 to 2^31", made.name);
    }
    if (!MORE(reader, *arrays, *count)) {
        return out_of_memory(reader);
    }
    (*arrays)[(*count)++] = made;
    return 0;
}

static int read_keys(struct reader *reader, struct spec_table *table) {
    static const char *const kinds[] = {"exact", "lpm", "wildcard"};
    const unsigned opened = reader->line;
    int more;
    while ((more = advance_in(reader, "key", opened)) > 0) {
        struct spec_key key = {reader->word[0], SPEC_EXACT};
        unsigned kind = 0;
        if (reader->words != (table->learner ? 1 : 2)) {
            return malformed(reader, table->learner ? "FIELD" : "FIELD exact|lpm|wildcard");
        }
        while (!table->learner && kind < 3 && !is(reader->word[1], kinds[kind])) {
            ++kind;
        }
        if (kind == 3) {
            return REFUSE(reader, "%s: no kind of match; there are exact, lpm and wildcard", reader->word[1]);
        }
        key.match = (enum spec_match)kind;
        if (!MORE(reader, table->keys, table->key_count)) {
            return out_of_memory(reader);
        }
        table->keys[table->key_count++] = key;
    }
    return more;
}

static int read_uses(struct reader *reader, struct spec_table *table) {
    const unsigned opened = reader->line;
    int more;
    while ((more = advance_in(reader, "actions", opened)) > 0) {
        const bool table_only = LINE_IS(reader, NULL, "@tableonly");
        const bool default_only = LINE_IS(reader, NULL, "@defaultonly");
        if (!table_only && !default_only && reader->words != 1) {
            return malformed(reader, "ACTION, ACTION @tableonly or ACTION @defaultonly");
        }
        if (!p4_spec_action(reader->spec, reader->word[0])) {
            return REFUSE(reader, "%s: there is no such action above", reader->word[0]);
        }
        if (!MORE(reader, table->uses, table->use_count)) {
            return out_of_memory(reader);
        }
        table->uses[table->use_count++] = (struct spec_use){reader->word[0], !default_only, !table_only};
    }
    return more;
}

/* default_action NAME args none|NAME VALUE ... [const] */
static int read_default(struct reader *reader, struct spec_table *table) {
    static const char form[] = "default_action ACTION args none|NAME VALUE ... [const]";
    unsigned words = reader->words;
    if (words < 4 || !is(reader->word[2], "args")) {
        return malformed(reader, form);
    }
    if (table->default_action) {
        return REFUSE(reader, "default_action: said already");
    }
    if (!p4_spec_action(reader->spec, reader->word[1])) {
        return REFUSE(reader, "%s: there is no such action above", reader->word[1]);
    }
    table->default_action = reader->word[1];
    table->default_is_const = is(reader->word[words - 1], "const");
    words -= table->default_is_const;
    const bool none = words == 4 && is(reader->word[3], "none");
    if (!none && (words < 5 || words % 2 == 0)) {
        return malformed(reader, form);
    }
    const struct spec_struct *arguments = p4_spec_action(reader->spec, table->default_action)->arguments;
    const unsigned given = none ? 0 : (words - 3) / 2, needed = arguments ? arguments->count : 0;
    if (given != needed) {
        return REFUSE(reader, "%s takes %u values, not %u; compile it again", table->default_action, needed,
                      given);
    }
    if (none) {
        return 0;
    }
    char *text = p4_arena(&reader->spec->arena, (size_t)words * SPEC_NAME);
    if (!text) {
        return out_of_memory(reader);
    }
    for (unsigned i = 3; i < words; ++i) {
        strcat(strcat(text, i > 3 ? " " : ""), reader->word[i]);
    }
    table->default_arguments = text;
    return 0;
}

static int read_timeouts(struct reader *reader, struct spec_table *table) {
    const unsigned opened = reader->line;
    int more;
    while ((more = advance_in(reader, "timeout", opened)) > 0) {
        if (reader->words != 1 || table->timeouts == SPEC_TIMEOUTS) {
            return REFUSE(reader, "timeout: one number of seconds a line, at most %d of them", SPEC_TIMEOUTS);
        }
        if (number32(reader, reader->word[0], &table->timeout[table->timeouts++]) != 0) {
            return -1;
        }
    }
    return more;
}

static int read_table_line(struct reader *reader, struct spec_table *table) {
    if (LINE_IS(reader, "key", "{")) {
        return read_keys(reader, table);
    }
    if (LINE_IS(reader, "actions", "{")) {
        return read_uses(reader, table);
    }
    if (is(reader->word[0], "default_action")) {
        return read_default(reader, table);
    }
    if (LINE_IS(reader, "size", NULL)) {
        return number32(reader, reader->word[1], &table->size);
    }
    if (LINE_IS(reader, "hash", NULL)) {
        table->hash = reader->word[1];
        return 0;
    }
    if (!table->learner && LINE_IS(reader, "instanceof", NULL)) {
        table->type = reader->word[1];
        return 0;
    }
    if (!table->learner && LINE_IS(reader, "pragma", NULL)) {
        table->pragma = reader->word[1];
        return 0;
    }
    if (table->learner && LINE_IS(reader, "timeout", "{")) {
        return read_timeouts(reader, table);
    }
    return REFUSE(reader, "%s: no statement of a %s that this loader knows; compile with p4c-dpdk --arch pna",
                  reader->word[0], table->learner ? "learner" : "table");
}

/* What DPDK reads without looking whether it is there. */
static int check_table(struct reader *reader, const struct spec_table *table) {
    for (unsigned i = 0; table->default_action && i < table->use_count; ++i) {
        if (table->uses[i].as_default && is(table->uses[i].action, table->default_action)) {
            return 0;
        }
    }
    return p4_spec_fail(reader->spec, table->line, reader->fault,
                        "%s: its default_action is missing, or none of its actions; compile it again",
                        table->name);
}

static int read_table(struct reader *reader, bool learner) {
    struct spec *spec = reader->spec;
    if (!LINE_IS(reader, NULL, NULL, "{")) {
        return malformed(reader, learner ? "learner NAME {" : "table NAME {");
    }
    if (!MORE(reader, spec->tables, spec->table_count)) {
        return out_of_memory(reader);
    }
    struct spec_table *made = &spec->tables[spec->table_count];
    *made = (struct spec_table){.name = reader->word[1], .line = reader->line, .learner = learner};
    int more;
    while ((more = advance_in(reader, made->name, made->line)) > 0) {
        if (read_table_line(reader, made) != 0) {
            return -1;
        }
    }
    ++spec->table_count;
    return more == 0 ? check_table(reader, made) : more;
}

static int read_selector_fields(struct reader *reader, struct spec_selector *selector) {
    const unsigned opened = reader->line;
    int more;
    while ((more = advance_in(reader, "selector", opened)) > 0) {
        if (reader->words != 1) {
            return malformed(reader, "FIELD");
        }
        if (!MORE(reader, selector->fields, selector->count)) {
            return out_of_memory(reader);
        }
        selector->fields[selector->count++] = reader->word[0];
    }
    return more;
}

static int read_selector_line(struct reader *reader, struct spec_selector *selector) {
    if (LINE_IS(reader, "group_id", NULL)) {
        selector->group_id = reader->word[1];
        return 0;
    }
    if (LINE_IS(reader, "member_id", NULL)) {
        selector->member_id = reader->word[1];
        return 0;
    }
    if (LINE_IS(reader, "selector", "{")) {
        return read_selector_fields(reader, selector);
    }
    if (LINE_IS(reader, "n_groups_max", NULL)) {
        return number32(reader, reader->word[1], &selector->groups);
    }
    if (LINE_IS(reader, "n_members_per_group_max", NULL)) {
        return number32(reader, reader->word[1], &selector->members);
    }
    return REFUSE(reader, "%s: no statement of a selector that this loader knows", reader->word[0]);
}

static int read_selector(struct reader *reader) {
    struct spec *spec = reader->spec;
    if (!LINE_IS(reader, "selector", NULL, "{")) {
        return malformed(reader, "selector NAME {");
    }
    if (!MORE(reader, spec->selectors, spec->selector_count)) {
        return out_of_memory(reader);
    }
    struct spec_selector *made = &spec->selectors[spec->selector_count];
    *made = (struct spec_selector){.name = reader->word[1], .line = reader->line};
    int more;
    while ((more = advance_in(reader, made->name, made->line)) > 0) {
        if (read_selector_line(reader, made) != 0) {
            return -1;
        }
    }
    ++spec->selector_count;
    if (more == 0 && !(made->group_id && made->member_id && made->count)) {
        return p4_spec_fail(spec, made->line, reader->fault,
                            "%s: a selector needs group_id, selector and member_id; compile it again",
                            made->name);
    }
    return more;
}

static int read_apply(struct reader *reader) {
    struct spec *spec = reader->spec;
    if (!LINE_IS(reader, "apply", "{")) {
        return malformed(reader, "apply {");
    }
    if (spec->apply.count) {
        return REFUSE(reader, "apply: there is one already in line %u", spec->apply_line);
    }
    spec->apply_line = reader->line;
    return read_block(reader, &spec->apply, "apply");
}

static int read_mirroring(struct reader *reader) {
    uint32_t slots = 0, sessions = 0;
    if (!LINE_IS(reader, "mirroring", "slots", NULL, "sessions", NULL)) {
        return malformed(reader, "mirroring slots N sessions N");
    }
    if (number32(reader, reader->word[2], &slots) != 0 || number32(reader, reader->word[4], &sessions) != 0) {
        return -1;
    }
    if (slots == 0 || slots > 64 || sessions == 0 || sessions > 65536) {
        return REFUSE(reader, "mirroring: from 1 to 64 slots, from 1 to 65536 sessions");
    }
    reader->spec->mirror_slots = slots;
    reader->spec->mirror_sessions = sessions;
    return 0;
}

static int read_statement(struct reader *reader) {
    struct spec *spec = reader->spec;
    const char *word = reader->word[0];
    if (is(word, "struct")) {
        return read_struct(reader);
    } else if (is(word, "header")) {
        return read_header(reader);
    } else if (is(word, "metadata")) {
        return read_metadata(reader);
    } else if (is(word, "action")) {
        return read_action(reader);
    } else if (is(word, "table") || is(word, "learner")) {
        return read_table(reader, is(word, "learner"));
    } else if (is(word, "selector")) {
        return read_selector(reader);
    } else if (is(word, "regarray")) {
        return read_array(reader, &spec->registers, &spec->register_count, false);
    } else if (is(word, "metarray")) {
        return read_array(reader, &spec->meters, &spec->meter_count, true);
    } else if (is(word, "mirroring")) {
        return read_mirroring(reader);
    } else if (is(word, "apply")) {
        return read_apply(reader);
    } else if (is(word, "extobj")) {
        return REFUSE(reader, "extobj: this loader has no extern objects; use registers, meters and hashes");
    } else if (is(word, "rss")) {
        return REFUSE(reader, "rss: DPDK 22.11 has none; use a hash");
    }
    return REFUSE(reader, "%s: no statement that this loader knows; compile with p4c-dpdk --arch pna", word);
}

/* The whole file, ended by a zero, owned by the arena. */
static char *read_file(struct spec *spec, struct fault *fault) {
    FILE *file = fopen(spec->path, "re");
    if (!file) {
        fail(fault, "%s: %s", spec->path, strerror(errno));
        return NULL;
    }
    char *text = NULL;
    size_t size = 0, room = 0;
    for (size_t got = 1; got > 0 && size <= FILE_MAX; size += got) {
        if (size == room) {
            const size_t wider = room ? room * 2 : 65536;
            char *next = p4_arena(&spec->arena, wider + 1);
            if (next && size) {
                memcpy(next, text, size);
            }
            text = next;
            room = wider;
        }
        got = text ? fread(text + size, 1, room - size, file) : 0;
    }
    const bool failed = ferror(file);
    const int error = errno;
    fclose(file);
    if (!text) {
        fail(fault, "%s: out of memory", spec->path);
    } else if (failed) {
        fail(fault, "%s: %s", spec->path, strerror(error));
    } else if (size > FILE_MAX || memchr(text, 0, size)) {
        fail(fault, "%s: %s; give the .spec of p4c-dpdk", spec->path,
             size > FILE_MAX ? "larger than 16 MiB" : "not a text file");
    } else {
        return text;
    }
    return NULL;
}

int p4_spec_read(struct spec *spec, const char *path, struct fault *fault) {
    *spec = (struct spec){.path = path};
    struct reader reader = {.spec = spec, .fault = fault};
    int found;
    if (!(reader.next = read_file(spec, fault))) {
        return -1;
    }
    while ((found = advance(&reader)) > 0) {
        if (read_statement(&reader) != 0) {
            return -1;
        }
    }
    if (found == 0 && !spec->apply.count) {
        return REFUSE(&reader, "the file ends without an apply block; give the .spec of p4c-dpdk");
    }
    if (found == 0 && !spec->metadata) {
        return p4_spec_fail(spec, spec->apply_line, fault,
                            "apply: no metadata was said before; compile it again");
    }
    return found;
}

void p4_spec_free(struct spec *spec) { p4_arena_free(&spec->arena); }

#define FIND(array, count, wanted)                  \
    do {                                            \
        for (unsigned i_ = 0; i_ < (count); ++i_) { \
            if (is((array)[i_].name, (wanted))) {   \
                return &(array)[i_];                \
            }                                       \
        }                                           \
        return NULL;                                \
    } while (0)

const struct spec_struct *p4_spec_struct(const struct spec *spec, const char *name) {
    FIND(spec->structs, spec->struct_count, name);
}

const struct spec_header *p4_spec_header(const struct spec *spec, const char *word) {
    if (strncmp(word, "h.", 2) != 0) {
        return NULL;
    }
    FIND(spec->headers, spec->header_count, word + 2);
}

const struct spec_action *p4_spec_action(const struct spec *spec, const char *name) {
    FIND(spec->actions, spec->action_count, name);
}

const struct spec_array *p4_spec_register(const struct spec *spec, const char *name) {
    FIND(spec->registers, spec->register_count, name);
}
