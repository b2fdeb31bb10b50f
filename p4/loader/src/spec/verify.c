#include "spec/verify.h"

#include <stdlib.h>
#include <string.h>

#include "spec/guard.h"

#define NONE UINT32_MAX
#define OPERAND_REACH 255
#define HASH_REACH 31
#define MOST_OF_A_KIND 255

/* An instruction as a place in a graph, and the most that can be on a way from it to an end. */
struct place {
    uint32_t next, target; /* NONE: it ends here, does not jump */
    uint32_t reach, emitted, emits;
    enum { UNSEEN, UNDER_WAY, DONE } state;
};

struct walk {
    const struct spec *spec;
    const struct spec_block *block;
    struct fault *fault;
    struct place *places;
    uint32_t *stack;
};

static bool is(const char *word, const char *other) { return strcmp(word, other) == 0; }

static bool ends(const struct spec_instruction *at) {
    return is(at->word[0], "tx") || is(at->word[0], "drop") || is(at->word[0], "return") ||
           is(at->word[0], "jmp");
}

static uint32_t find_label(const struct walk *walk, const char *label) {
    for (unsigned i = 0; i < walk->block->count; ++i) {
        const char *other = walk->block->instructions[i].label;
        if (other && is(other, label)) {
            return i;
        }
    }
    return NONE;
}

static int link_places(struct walk *walk) {
    const struct spec_block *block = walk->block;
    for (unsigned i = 0; i < block->count; ++i) {
        const struct spec_instruction *at = &block->instructions[i];
        const char *jump = p4_jump(at);
        struct place *place = &walk->places[i];
        place->next = ends(at) ? NONE : i + 1;
        place->target = jump ? find_label(walk, jump) : NONE;
        if (at->label && find_label(walk, at->label) != i) {
            return p4_spec_fail(walk->spec, at->line, walk->fault,
                                "%s: this label is there already; compile it again", at->label);
        }
        if (jump && place->target == NONE) {
            return p4_spec_fail(walk->spec, at->line, walk->fault,
                                "%s: there is no such label in this block; compile it again", jump);
        }
        if (place->next == block->count) {
            return p4_spec_fail(walk->spec, at->line, walk->fault,
                                "%s: the block does not end here with tx, return or jmp; compile it again",
                                at->word[0]);
        }
    }
    return 0;
}

/* Bytes of the header that an instruction names, 0: it names none. */
static uint32_t header_bytes(const struct walk *walk, const struct spec_instruction *at) {
    const struct spec_header *header = at->words > 1 ? p4_spec_header(walk->spec, at->word[1]) : NULL;
    return header ? header->type->bits / 8 : 0;
}

static uint32_t most(uint32_t one, uint32_t other) { return one > other ? one : other; }

/* Both ways on are known. */
static void settle(struct walk *walk, uint32_t index) {
    static const struct place end = {.reach = 0};
    struct place *place = &walk->places[index];
    const struct spec_instruction *at = &walk->block->instructions[index];
    const struct place *next = place->next == NONE ? &end : &walk->places[place->next];
    const struct place *target = place->target == NONE ? &end : &walk->places[place->target];
    const uint32_t bytes = header_bytes(walk, at);
    const bool emit = is(at->word[0], "emit");
    place->reach = most(next->reach, target->reach);
    if (is(at->word[0], "extract")) {
        place->reach += bytes;
    } else if (is(at->word[0], "lookahead")) {
        place->reach = most(place->reach, bytes);
    }
    place->emitted = most(next->emitted, target->emitted) + (emit ? bytes : 0);
    place->emits = most(next->emits, target->emits) + emit;
    place->state = DONE;
}

/* Depth first; a place that is met again while under way is part of a circle. */
static int visit(struct walk *walk, uint32_t start) {
    uint32_t depth = 0;
    walk->stack[depth++] = start;
    while (depth) {
        const uint32_t index = walk->stack[depth - 1];
        struct place *place = &walk->places[index];
        place->state = UNDER_WAY;
        const uint32_t ways[2] = {place->next, place->target};
        uint32_t open = NONE;
        for (int i = 0; i < 2 && open == NONE; ++i) {
            if (ways[i] != NONE && walk->places[ways[i]].state == UNDER_WAY) {
                return p4_spec_fail(
                    walk->spec, walk->block->instructions[index].line, walk->fault,
                    "%s: goes back to line %u, so that a frame may never come out; unroll the loop "
                    "(a header stack of fixed size)",
                    walk->block->instructions[index].word[0], walk->block->instructions[ways[i]].line);
            }
            open = ways[i] != NONE && walk->places[ways[i]].state == UNSEEN ? ways[i] : NONE;
        }
        if (open != NONE) {
            walk->stack[depth++] = open;
        } else {
            settle(walk, index);
            --depth;
        }
    }
    return 0;
}

/* Bytes before a field in its struct, and the struct; NULL: the word names no field. */
static const struct spec_struct *find_field(const struct walk *walk, const struct spec_action *action,
                                            const char *word, uint32_t *bytes) {
    char header[SPEC_NAME + 2];
    const char *field = strrchr(word, '.');
    const struct spec_struct *type = NULL;
    if (!field || field == word) {
        return NULL;
    } else if (word[0] == 'm') {
        type = walk->spec->metadata;
    } else if (word[0] == 't') {
        type = action ? action->arguments : NULL;
    } else if ((size_t)(field - word) < sizeof header) {
        memcpy(header, word, (size_t)(field - word));
        header[field - word] = '\0';
        const struct spec_header *found = p4_spec_header(walk->spec, header);
        type = found ? found->type : NULL;
    }
    *bytes = 0;
    for (unsigned i = 0; type && i < type->count; ++i) {
        if (is(type->fields[i].name, field + 1)) {
            return type;
        }
        *bytes += type->fields[i].bits / 8;
    }
    return NULL;
}

/* DPDK (22.11 to 24.11) keeps a field's offset in 8 bits, without a look whether it fits:
 * rte_swx_pipeline_internal.h, struct instr_operand; of a hash's result it cuts the offset in bits
 * (instr_hash_translate). */
static int check_operands(const struct walk *walk, const struct spec_action *action,
                          const struct spec_instruction *at) {
    const bool hash = is(at->word[0], "hash");
    for (unsigned i = 1; i < at->words; ++i) {
        const uint32_t reach = hash && i == 2 ? HASH_REACH : OPERAND_REACH;
        uint32_t bytes;
        const struct spec_struct *type = find_field(walk, action, at->word[i], &bytes);
        if (type && bytes > reach && !(hash && i > 2)) {
            return p4_spec_fail(walk->spec, at->line, walk->fault,
                                "%s: is %u bytes into struct %s (line %u), and DPDK reaches %u%s; %s",
                                at->word[i], bytes, type->name, type->line, reach,
                                hash ? " for the result of a hash" : "",
                                hash ? "declare it earlier" : "use fewer or shorter fields");
        }
    }
    const struct spec_header *header = at->words > 1 ? p4_spec_header(walk->spec, at->word[1]) : NULL;
    if (header && (is(at->word[0], "extract") || is(at->word[0], "lookahead"))) {
        const struct spec_struct *type = header->type;
        const uint32_t fixed = type->bits - (type->variable ? type->fields[type->count - 1].bits : 0);
        if (fixed / 8 > OPERAND_REACH) {
            return p4_spec_fail(walk->spec, at->line, walk->fault,
                                "%s: has %u bytes, and DPDK extracts at most %u; "
                                "split the header",
                                at->word[1], fixed / 8, OPERAND_REACH);
        }
    }
    return 0;
}

static int check_words(const struct walk *walk, const struct spec_action *action,
                       struct verify_facts *facts) {
    static const char *const only_apply[] = {"rx", "extract", "lookahead", "emit", "table"};
    for (unsigned i = 0; i < walk->block->count; ++i) {
        const struct spec_instruction *at = &walk->block->instructions[i];
        for (unsigned j = 0; action && j < sizeof only_apply / sizeof *only_apply; ++j) {
            if (is(at->word[0], only_apply[j])) {
                return p4_spec_fail(walk->spec, at->line, walk->fault,
                                    "%s: belongs in the apply block, not in an action", at->word[0]);
            }
        }
        if (is(at->word[0], "extern")) {
            return p4_spec_fail(
                walk->spec, at->line, walk->fault,
                "extern: this loader has no extern objects; use registers, meters and hashes");
        }
        if (!action && is(at->word[0], "rx") != (i == 0)) {
            return p4_spec_fail(walk->spec, at->line, walk->fault,
                                "%s: rx is the first instruction of apply and is nowhere else", at->word[0]);
        }
        if (check_operands(walk, action, at) != 0) {
            return -1;
        }
        facts->waits |= is(at->word[0], "table");
    }
    return 0;
}

static int check_emits(const struct walk *walk, struct verify_facts *facts) {
    const struct spec *spec = walk->spec;
    uint32_t bytes = 0;
    for (unsigned i = 0; i < spec->header_count; ++i) {
        bytes += spec->headers[i].type->bits / 8;
    }
    facts->reach = walk->places[0].reach;
    facts->emitted = walk->places[0].emitted;
    if (walk->places[0].emits > spec->header_count || facts->emitted > bytes) {
        return p4_spec_fail(
            spec, spec->apply_line, walk->fault,
            "apply: a way through it emits a header twice, for which DPDK has no room; emit each once");
    }
    return 0;
}

static int check_block(const struct spec *spec, const struct spec_action *action, struct verify_facts *facts,
                       struct fault *fault) {
    const struct spec_block *block = action ? &action->body : &spec->apply;
    struct walk walk = {spec, block, fault, calloc(block->count, sizeof *walk.places),
                        calloc(block->count + 1, sizeof *walk.stack)};
    int status = walk.places && walk.stack ? 0 : fail(fault, "%s: out of memory", spec->path);
    if (status == 0 && (check_words(&walk, action, facts) != 0 || link_places(&walk) != 0 ||
                        visit(&walk, 0) != 0 || (!action && check_emits(&walk, facts) != 0))) {
        status = -1;
    }
    free(walk.places);
    free(walk.stack);
    return status;
}

int p4_verify(const struct spec *spec, struct verify_facts *facts, struct fault *fault) {
    *facts = (struct verify_facts){.waits = false};
    if (spec->action_count > MOST_OF_A_KIND || spec->table_count > MOST_OF_A_KIND ||
        spec->register_count > MOST_OF_A_KIND || spec->meter_count > MOST_OF_A_KIND) {
        return fail(
            fault,
            "%.200s: more than %d actions, tables, regarrays or metarrays, which is all that DPDK numbers",
            spec->path, MOST_OF_A_KIND);
    }
    for (unsigned i = 0; i < spec->action_count; ++i) {
        if (check_block(spec, &spec->actions[i], facts, fault) != 0) {
            return -1;
        }
    }
    return check_block(spec, NULL, facts, fault);
}
