#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spec/reader.h"

#define FILE_MAX (16U << 20)

/* Parses bit<N> or varbit<N>. */
static int field_type(struct reader *reader, const char *word, uint32_t *bits, bool *variable) {
    char digits[SPEC_NAME];
    uint64_t value = 0;
    *variable = strncmp(word, "varbit<", 7) == 0;
    const size_t head = *variable ? 7 : 4, size = strlen(word);
    if ((!*variable && strncmp(word, "bit<", 4) != 0) || size < head + 2 || word[size - 1] != '>') {
        return REFUSE(reader, "%s: not the type of a field; use bit<N> or varbit<N>", word);
    }
    memcpy(digits, word + head, size - head - 1);
    digits[size - head - 1] = '\0';
    if (p4_reader_number(reader, digits, 65536, &value) != 0) {
        return -1;
    }
    if (value == 0 || value % 8) {
        return REFUSE(reader, "%s: not a multiple of 8 bits, as DPDK requires", word);
    }
    *bits = (uint32_t)value;
    return 0;
}

static int read_struct(struct reader *reader) {
    struct spec *spec = reader->spec;
    if (!LINE_IS(reader, "struct", NULL, "{")) {
        return p4_reader_malformed(reader, "struct NAME {");
    }
    if (p4_spec_struct(spec, reader->word[1])) {
        return REFUSE(reader, "struct %s: already defined", reader->word[1]);
    }
    if (!MORE(reader, spec->structs, spec->struct_count)) {
        return p4_reader_memory(reader);
    }
    struct spec_struct *added = &spec->structs[spec->struct_count];
    *added = (struct spec_struct){.name = reader->word[1], .line = reader->line};
    int more;
    while ((more = p4_reader_next_in(reader, added->name, added->line)) > 0) {
        bool variable = false;
        uint32_t bits = 0;
        if (reader->words != 2) {
            return p4_reader_malformed(reader, "bit<N> NAME");
        }
        if (added->variable) {
            return REFUSE(reader, "%s: follows a varbit, which must be the last field", reader->word[1]);
        }
        if (field_type(reader, reader->word[0], &bits, &variable) != 0) {
            return -1;
        }
        if (!MORE(reader, added->fields, added->count)) {
            return p4_reader_memory(reader);
        }
        added->fields[added->count++] = (struct spec_field){reader->word[1], bits};
        added->variable = variable;
        added->bits += bits;
    }
    ++spec->struct_count;
    return more;
}

static int read_header(struct reader *reader) {
    struct spec *spec = reader->spec;
    if (!LINE_IS(reader, "header", NULL, "instanceof", NULL)) {
        return p4_reader_malformed(reader, "header NAME instanceof STRUCT");
    }
    const struct spec_struct *type = p4_spec_struct(spec, reader->word[3]);
    if (!type) {
        return REFUSE(reader, "%s: no such struct before this line", reader->word[3]);
    }
    if (!MORE(reader, spec->headers, spec->header_count)) {
        return p4_reader_memory(reader);
    }
    spec->headers[spec->header_count++] = (struct spec_header){reader->word[1], reader->line, type};
    return 0;
}

static int read_metadata(struct reader *reader) {
    if (!LINE_IS(reader, "metadata", "instanceof", NULL)) {
        return p4_reader_malformed(reader, "metadata instanceof STRUCT");
    }
    if (reader->spec->metadata) {
        return REFUSE(reader, "metadata: already defined in line %u", reader->spec->metadata_line);
    }
    reader->spec->metadata = p4_spec_struct(reader->spec, reader->word[2]);
    reader->spec->metadata_line = reader->line;
    return reader->spec->metadata ? 0
                                  : REFUSE(reader, "%s: no such struct before this line", reader->word[2]);
}

/* Reads lines "LABEL : WORD ..." up to the block's }. */
static int read_block(struct reader *reader, struct spec_block *block, const char *name) {
    const unsigned opened = reader->line;
    int more;
    while ((more = p4_reader_next_in(reader, name, opened)) > 0) {
        const bool labeled = reader->words > 1 && is(reader->word[1], ":");
        const unsigned first = labeled ? 2 : 0, words = reader->words - first;
        size_t length = reader->words;
        for (unsigned i = 0; i < reader->words; ++i) {
            length += strlen(reader->word[i]);
        }
        if (words == 0) {
            return REFUSE(reader, "%s: a label without an instruction", reader->word[0]);
        }
        if (reader->words > SPEC_WORDS || length > SPEC_INSTRUCTION) {
            return REFUSE(
                reader,
                "an instruction of %u words and %zu characters; DPDK supports %d and %d; simplify it "
                "in the .p4",
                reader->words, length - 1, SPEC_WORDS, SPEC_INSTRUCTION - 1);
        }
        if (!MORE(reader, block->instructions, block->count)) {
            return p4_reader_memory(reader);
        }
        struct spec_instruction *added = &block->instructions[block->count++];
        *added = (struct spec_instruction){.line = reader->line, .words = words};
        added->label = labeled ? reader->word[0] : NULL;
        for (unsigned i = 0; i < words; ++i) {
            added->word[i] = reader->word[first + i];
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
        return p4_reader_malformed(reader,
                                   "action NAME args none {, or: action NAME args instanceof STRUCT {");
    }
    if (p4_spec_action(spec, reader->word[1])) {
        return REFUSE(reader, "action %s: already defined", reader->word[1]);
    }
    if (!MORE(reader, spec->actions, spec->action_count)) {
        return p4_reader_memory(reader);
    }
    struct spec_action *added = &spec->actions[spec->action_count];
    *added = (struct spec_action){.name = reader->word[1], .line = reader->line};
    if (!plain && !(added->arguments = p4_spec_struct(spec, reader->word[4]))) {
        return REFUSE(reader, "%s: no such struct before this line", reader->word[4]);
    }
    if (read_block(reader, &added->body, added->name) != 0) {
        return -1;
    }
    ++spec->action_count;
    return 0;
}

static int read_array(struct reader *reader, struct spec_array **arrays, unsigned *count, bool meter) {
    if (meter ? !LINE_IS(reader, "metarray", NULL, "size", NULL)
              : !LINE_IS(reader, "regarray", NULL, "size", NULL, "initval", NULL)) {
        return p4_reader_malformed(reader, meter ? "metarray NAME size N" : "regarray NAME size N initval N");
    }
    struct spec_array added = {.name = reader->word[1], .line = reader->line};
    if (p4_reader_number32(reader, reader->word[3], &added.size) != 0 ||
        (!meter && p4_reader_number(reader, reader->word[5], UINT64_MAX, &added.initial) != 0)) {
        return -1;
    }
    if (added.size == 0 || added.size > 1U << 31) {
        return REFUSE(reader, "%s: its size must be from 1 to 2^31", added.name);
    }
    if (!MORE(reader, *arrays, *count)) {
        return p4_reader_memory(reader);
    }
    (*arrays)[(*count)++] = added;
    return 0;
}

static int read_apply(struct reader *reader) {
    struct spec *spec = reader->spec;
    if (!LINE_IS(reader, "apply", "{")) {
        return p4_reader_malformed(reader, "apply {");
    }
    if (spec->apply.count) {
        return REFUSE(reader, "apply: already defined in line %u", spec->apply_line);
    }
    spec->apply_line = reader->line;
    return read_block(reader, &spec->apply, "apply");
}

static int read_mirroring(struct reader *reader) {
    uint32_t slots = 0, sessions = 0;
    if (!LINE_IS(reader, "mirroring", "slots", NULL, "sessions", NULL)) {
        return p4_reader_malformed(reader, "mirroring slots N sessions N");
    }
    if (p4_reader_number32(reader, reader->word[2], &slots) != 0 ||
        p4_reader_number32(reader, reader->word[4], &sessions) != 0) {
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
        return p4_spec_read_table(reader, is(word, "learner"));
    } else if (is(word, "selector")) {
        return p4_spec_read_selector(reader);
    } else if (is(word, "regarray")) {
        return read_array(reader, &spec->registers, &spec->register_count, false);
    } else if (is(word, "metarray")) {
        return read_array(reader, &spec->meters, &spec->meter_count, true);
    } else if (is(word, "mirroring")) {
        return read_mirroring(reader);
    } else if (is(word, "apply")) {
        return read_apply(reader);
    } else if (is(word, "extobj")) {
        return REFUSE(reader, "extobj: extern objects are not supported; use registers, meters and hashes");
    } else if (is(word, "rss")) {
        return REFUSE(reader, "rss: not supported by DPDK 22.11; use a hash");
    }
    return REFUSE(reader, "%s: unknown statement; compile with p4c-dpdk --arch pna", word);
}

/* Reads the whole file and appends a zero byte. The arena owns the memory. */
static char *read_file(struct spec *spec, struct fault *fault) {
    FILE *file = fopen(spec->path, "re");
    if (!file) {
        fail(fault, "%s: %s%s", spec->path, strerror(errno), read_advice(errno));
        return NULL;
    }
    char *text = NULL;
    size_t size = 0, room = 0;
    for (size_t bytes_read = 1; bytes_read > 0 && size <= FILE_MAX; size += bytes_read) {
        if (size == room) {
            const size_t larger = room ? room * 2 : 65536;
            char *next = p4_arena_allocate(&spec->arena, larger + 1);
            if (next && size) {
                memcpy(next, text, size);
            }
            text = next;
            room = larger;
        }
        bytes_read = text ? fread(text + size, 1, room - size, file) : 0;
    }
    const bool failed = ferror(file);
    const int error = errno;
    fclose(file);
    if (!text) {
        fail(fault, "%s: out of memory", spec->path);
    } else if (failed) {
        fail(fault, "%s: %s%s", spec->path, strerror(error), read_advice(error));
    } else if (size > FILE_MAX || memchr(text, 0, size)) {
        fail(fault, "%s: %s; use a .spec of p4c-dpdk", spec->path,
             size > FILE_MAX ? "larger than 16 MiB" : "not a text file");
    } else {
        return text;
    }
    return NULL;
}

int p4_spec_read(struct spec *spec, const char *path, struct fault *fault) {
    *spec = (struct spec){.path = path};
    struct reader reader = {.spec = spec, .fault = fault};
    int status;
    if (!(reader.next = read_file(spec, fault))) {
        return -1;
    }
    while ((status = p4_reader_next(&reader)) > 0) {
        if (read_statement(&reader) != 0) {
            return -1;
        }
    }
    if (status == 0 && !spec->apply.count) {
        return REFUSE(&reader, "the file ends without an apply block; use a .spec of p4c-dpdk");
    }
    if (status == 0 && !spec->metadata) {
        return p4_spec_fail(spec, spec->apply_line, fault,
                            "apply: metadata must be defined before; compile the program again");
    }
    return status;
}

void p4_spec_free(struct spec *spec) { p4_arena_free(&spec->arena); }

#define FIND(array, count, key)                     \
    do {                                            \
        for (unsigned i_ = 0; i_ < (count); ++i_) { \
            if (is((array)[i_].name, (key))) {      \
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
