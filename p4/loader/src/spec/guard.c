#include "spec/guard.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire.h"

#define SCRATCH "acapella_scratch"
#define MAX_SCRATCH_BYTES 255 /* bytes before the field, within reach of DPDK (verify.c) */

const char *p4_jump(const struct spec_instruction *instruction) {
    return strncmp(instruction->word[0], "jmp", 3) == 0 && instruction->words > 1 ? instruction->word[1]
                                                                                  : NULL;
}

/* Adds an instruction. Returns false if out of memory. */
static bool put(struct guarded *guarded, unsigned line, const char *jump, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static bool put(struct guarded *guarded, unsigned line, const char *jump, const char *format, ...) {
    char *text = p4_arena_allocate(&guarded->arena, SPEC_INSTRUCTION + SPEC_NAME);
    guarded->texts = p4_arena_grow(&guarded->arena, guarded->texts, guarded->count, sizeof *guarded->texts);
    guarded->jump = p4_arena_grow(&guarded->arena, guarded->jump, guarded->count, sizeof *guarded->jump);
    guarded->line = p4_arena_grow(&guarded->arena, guarded->line, guarded->count, sizeof *guarded->line);
    if (!text || !guarded->texts || !guarded->jump || !guarded->line) {
        return false;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, SPEC_INSTRUCTION + SPEC_NAME, format, arguments);
    va_end(arguments);
    guarded->texts[guarded->count] = text;
    guarded->jump[guarded->count] = jump;
    guarded->line[guarded->count++] = line;
    return true;
}

/* [LABEL :] WORD ... */
static bool put_plain(struct guarded *guarded, const struct spec_instruction *from, const char *label) {
    char text[SPEC_INSTRUCTION + SPEC_NAME] = "";
    size_t size = 0;
    if (label) {
        size = (size_t)snprintf(text, sizeof text, "%s : ", label);
    }
    for (unsigned i = 0; i < from->words && size < sizeof text; ++i) {
        size += (size_t)snprintf(text + size, sizeof text - size, "%s%s", i ? " " : "", from->word[i]);
    }
    return put(guarded, from->line, p4_jump(from), "%s", text);
}

/* Adds instructions that set `field` to `fallback` unless it is below `bound`, then the instruction
 * itself. */
static bool put_bounded(struct guarded *guarded, const struct spec_instruction *from, const char *field,
                        unsigned long bound, unsigned long fallback) {
    char *label = p4_arena_allocate(&guarded->arena, SPEC_NAME);
    if (!label) {
        return false;
    }
    snprintf(label, SPEC_NAME, "ACAPELLA_%u", guarded->count);
    return put(guarded, from->line, label, "%s%sjmplt %s %s 0x%lx", from->label ? from->label : "",
               from->label ? " : " : "", label, field, bound) &&
           put(guarded, from->line, NULL, "mov %s 0x%lx", field, fallback) && put_plain(guarded, from, label);
}

/* Returns true for regwr or regadd of a constant at a constant index. */
static bool is_constant(const struct spec_instruction *from) {
    return (strcmp(from->word[0], "regwr") == 0 || strcmp(from->word[0], "regadd") == 0) &&
           from->words == 4 && isdigit((unsigned char)from->word[2][0]) &&
           isdigit((unsigned char)from->word[3][0]);
}

static bool put_constant(struct guarded *guarded, const struct spec_instruction *from) {
    return put(guarded, from->line, NULL, "%s%smov m." SCRATCH " %s", from->label ? from->label : "",
               from->label ? " : " : "", from->word[3]) &&
           put(guarded, from->line, NULL, "%s %s %s m." SCRATCH, from->word[0], from->word[1], from->word[2]);
}

static const struct spec_instruction *find_constant(const struct spec *spec) {
    for (unsigned i = 0; i <= spec->action_count; ++i) {
        const struct spec_block *block = i < spec->action_count ? &spec->actions[i].body : &spec->apply;
        for (unsigned j = 0; j < block->count; ++j) {
            if (is_constant(&block->instructions[j])) {
                return &block->instructions[j];
            }
        }
    }
    return NULL;
}

int p4_guard_prepare(struct spec *spec, struct fault *fault) {
    const struct spec_instruction *first = find_constant(spec);
    if (!first) {
        return 0;
    }
    if (spec->metadata->bits / 8 > MAX_SCRATCH_BYTES) {
        return p4_spec_fail(
            spec, first->line, fault,
            "%s %s: DPDK writes a constant to the first regarray instead, and the metadata has no room "
            "for a field to write it from; assign it to a field in the .p4",
            first->word[0], first->word[1]);
    }
    struct spec_struct *metadata = &spec->structs[p4_spec_struct(spec, spec->metadata->name) - spec->structs];
    metadata->fields =
        p4_arena_grow(&spec->arena, metadata->fields, metadata->count, sizeof *metadata->fields);
    if (!metadata->fields) {
        return fail(fault, "%s: out of memory", spec->path);
    }
    metadata->fields[metadata->count++] = (struct spec_field){SCRATCH, 64};
    metadata->bits += 64;
    spec->metadata = metadata;
    return 0;
}

static int put_guarded(struct guarded *guarded, const struct spec *spec, const struct spec_instruction *from,
                       struct fault *fault) {
    const bool from_metadata = from->words > 1 && strncmp(from->word[from->words - 1], "m.", 2) == 0;
    const bool tx = strcmp(from->word[0], "tx") == 0 && from->words == 2;
    bool done;
    if (tx && !from_metadata) {
        char *end = NULL;
        if (strtoul(from->word[1], &end, 0) >= WIRE_WRONG || *end) {
            return p4_spec_fail(spec, from->line, fault, "tx %s: the only ports are 0 (out) and 1 (sink)",
                                from->word[1]);
        }
    }
    if (tx && from_metadata) {
        done = put_bounded(guarded, from, from->word[1], WIRE_WRONG, WIRE_WRONG);
    } else if (strcmp(from->word[0], "extract") == 0 && from->words == 3 && from_metadata) {
        const struct spec_header *header = p4_spec_header(spec, from->word[1]);
        if (!header || !header->type->variable) {
            return p4_spec_fail(spec, from->line, fault, "extract %s: there is no such header with a varbit",
                                from->word[1]);
        }
        const unsigned long max_bytes = header->type->fields[header->type->count - 1].bits / 8;
        done = put_bounded(guarded, from, from->word[2], max_bytes + 1, max_bytes);
    } else if (is_constant(from)) {
        done = put_constant(guarded, from);
    } else if (strcmp(from->word[0], "drop") == 0) {
        done = put(guarded, from->line, NULL, "%s%stx %d", from->label ? from->label : "",
                   from->label ? " : " : "", WIRE_DROP);
    } else {
        done = put_plain(guarded, from, from->label);
    }
    return done ? 0 : p4_spec_fail(spec, from->line, fault, "out of memory");
}

int p4_guard(struct guarded *guarded, const struct spec *spec, const struct spec_block *block,
             struct fault *fault) {
    *guarded = (struct guarded){.count = 0};
    for (unsigned i = 0; i < block->count; ++i) {
        if (put_guarded(guarded, spec, &block->instructions[i], fault) != 0) {
            p4_guarded_free(guarded);
            return -1;
        }
    }
    return 0;
}

void p4_guarded_free(struct guarded *guarded) { p4_arena_free(&guarded->arena); }
