#include "spec/verify.h"

#include <stdlib.h>
#include <string.h>

#include "spec/guard.h"

#define NONE UINT32_MAX
#define OPERAND_REACH 255
#define HASH_REACH 31
#define MAX_PER_KIND 255

/* An instruction as a node of a graph, and the maxima over all paths from it to an end. */
struct node {
    uint32_t next, target; /* NONE: it ends the block, or does not jump */
    uint32_t reach, emitted, emits;
    enum { UNSEEN, UNDER_WAY, DONE } state;
};

struct graph {
    const struct spec *spec;
    const struct spec_block *block;
    struct fault *fault;
    struct node *nodes;
    uint32_t *stack;
};

static bool is(const char *word, const char *other) { return strcmp(word, other) == 0; }

static bool ends(const struct spec_instruction *at) {
    return is(at->word[0], "tx") || is(at->word[0], "drop") || is(at->word[0], "return") ||
           is(at->word[0], "jmp");
}

static uint32_t find_label(const struct graph *graph, const char *label) {
    for (unsigned i = 0; i < graph->block->count; ++i) {
        const char *other = graph->block->instructions[i].label;
        if (other && is(other, label)) {
            return i;
        }
    }
    return NONE;
}

static int link_nodes(struct graph *graph) {
    const struct spec_block *block = graph->block;
    for (unsigned i = 0; i < block->count; ++i) {
        const struct spec_instruction *at = &block->instructions[i];
        const char *jump = p4_jump(at);
        struct node *node = &graph->nodes[i];
        node->next = ends(at) ? NONE : i + 1;
        node->target = jump ? find_label(graph, jump) : NONE;
        if (at->label && find_label(graph, at->label) != i) {
            return p4_spec_fail(graph->spec, at->line, graph->fault, "%s: duplicate label; compile it again",
                                at->label);
        }
        if (jump && node->target == NONE) {
            return p4_spec_fail(graph->spec, at->line, graph->fault,
                                "%s: no such label in this block; compile it again", jump);
        }
        if (node->next == block->count) {
            return p4_spec_fail(graph->spec, at->line, graph->fault,
                                "%s: the block does not end here with tx, return or jmp; compile it again",
                                at->word[0]);
        }
    }
    return 0;
}

/* Returns the size of the header in an instruction, in bytes, or 0 if it has no header. */
static uint32_t header_bytes(const struct graph *graph, const struct spec_instruction *at) {
    const struct spec_header *header = at->words > 1 ? p4_spec_header(graph->spec, at->word[1]) : NULL;
    return header ? header->type->bits / 8 : 0;
}

static uint32_t maximum(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* Computes the maxima of a node whose successors are done. */
static void compute_maxima(struct graph *graph, uint32_t index) {
    static const struct node end = {.reach = 0};
    struct node *node = &graph->nodes[index];
    const struct spec_instruction *at = &graph->block->instructions[index];
    const struct node *next = node->next == NONE ? &end : &graph->nodes[node->next];
    const struct node *target = node->target == NONE ? &end : &graph->nodes[node->target];
    const uint32_t bytes = header_bytes(graph, at);
    const bool emit = is(at->word[0], "emit");
    node->reach = maximum(next->reach, target->reach);
    if (is(at->word[0], "extract")) {
        node->reach += bytes;
    } else if (is(at->word[0], "lookahead")) {
        node->reach = maximum(node->reach, bytes);
    }
    node->emitted = maximum(next->emitted, target->emitted) + (emit ? bytes : 0);
    node->emits = maximum(next->emits, target->emits) + emit;
    node->state = DONE;
}

/* Depth-first search; a node that is found again while it is being visited is part of a loop. */
static int visit(struct graph *graph, uint32_t start) {
    uint32_t depth = 0;
    graph->stack[depth++] = start;
    while (depth) {
        const uint32_t index = graph->stack[depth - 1];
        struct node *node = &graph->nodes[index];
        node->state = UNDER_WAY;
        const uint32_t successors[2] = {node->next, node->target};
        uint32_t open = NONE;
        for (int i = 0; i < 2 && open == NONE; ++i) {
            if (successors[i] != NONE && graph->nodes[successors[i]].state == UNDER_WAY) {
                return p4_spec_fail(
                    graph->spec, graph->block->instructions[index].line, graph->fault,
                    "%s: jumps back to line %u, so that a frame may never leave; unroll the loop "
                    "(a header stack of fixed size)",
                    graph->block->instructions[index].word[0],
                    graph->block->instructions[successors[i]].line);
            }
            open =
                successors[i] != NONE && graph->nodes[successors[i]].state == UNSEEN ? successors[i] : NONE;
        }
        if (open != NONE) {
            graph->stack[depth++] = open;
        } else {
            compute_maxima(graph, index);
            --depth;
        }
    }
    return 0;
}

/* Returns the struct of a field, and sets `bytes` to the number of bytes before the field. Returns NULL if
 * the word is not a field. */
static const struct spec_struct *find_field(const struct graph *graph, const struct spec_action *action,
                                            const char *word, uint32_t *bytes) {
    char header[SPEC_NAME + 2];
    const char *field = strrchr(word, '.');
    const struct spec_struct *type = NULL;
    if (!field || field == word) {
        return NULL;
    } else if (word[0] == 'm') {
        type = graph->spec->metadata;
    } else if (word[0] == 't') {
        type = action ? action->arguments : NULL;
    } else if ((size_t)(field - word) < sizeof header) {
        memcpy(header, word, (size_t)(field - word));
        header[field - word] = '\0';
        const struct spec_header *packet_header = p4_spec_header(graph->spec, header);
        type = packet_header ? packet_header->type : NULL;
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

/* DPDK (22.11 to 24.11) stores the offset of a field in 8 bits without a check: rte_swx_pipeline_internal.h,
 * struct instr_operand; for the result of a hash, it truncates the offset in bits (instr_hash_translate). */
static int check_operands(const struct graph *graph, const struct spec_action *action,
                          const struct spec_instruction *at) {
    const bool hash = is(at->word[0], "hash");
    for (unsigned i = 1; i < at->words; ++i) {
        const uint32_t reach = hash && i == 2 ? HASH_REACH : OPERAND_REACH;
        uint32_t bytes;
        const struct spec_struct *type = find_field(graph, action, at->word[i], &bytes);
        if (type && bytes > reach && !(hash && i > 2)) {
            return p4_spec_fail(graph->spec, at->line, graph->fault,
                                "%s: is %u bytes into struct %s (line %u), and DPDK can address %u%s; %s",
                                at->word[i], bytes, type->name, type->line, reach,
                                hash ? " for the result of a hash" : "",
                                hash ? "declare it earlier" : "use fewer or shorter fields");
        }
    }
    const struct spec_header *header = at->words > 1 ? p4_spec_header(graph->spec, at->word[1]) : NULL;
    if (header && (is(at->word[0], "extract") || is(at->word[0], "lookahead"))) {
        const struct spec_struct *type = header->type;
        const uint32_t fixed = type->bits - (type->variable ? type->fields[type->count - 1].bits : 0);
        if (fixed / 8 > OPERAND_REACH) {
            return p4_spec_fail(graph->spec, at->line, graph->fault,
                                "%s: has %u bytes, and DPDK extracts at most %u; "
                                "split the header",
                                at->word[1], fixed / 8, OPERAND_REACH);
        }
    }
    return 0;
}

static int check_words(const struct graph *graph, const struct spec_action *action,
                       struct verify_limits *limits) {
    static const char *const only_apply[] = {"rx", "extract", "lookahead", "emit", "table"};
    for (unsigned i = 0; i < graph->block->count; ++i) {
        const struct spec_instruction *at = &graph->block->instructions[i];
        for (unsigned j = 0; action && j < sizeof only_apply / sizeof *only_apply; ++j) {
            if (is(at->word[0], only_apply[j])) {
                return p4_spec_fail(graph->spec, at->line, graph->fault,
                                    "%s: belongs in the apply block, not in an action", at->word[0]);
            }
        }
        if (is(at->word[0], "extern")) {
            return p4_spec_fail(graph->spec, at->line, graph->fault,
                                "extern: extern objects are not supported; use registers, meters and hashes");
        }
        if (!action && is(at->word[0], "rx") != (i == 0)) {
            return p4_spec_fail(graph->spec, at->line, graph->fault,
                                "%s: rx must be the first instruction of apply, and only there", at->word[0]);
        }
        if (check_operands(graph, action, at) != 0) {
            return -1;
        }
        limits->waits |= is(at->word[0], "table");
    }
    return 0;
}

static int check_emits(const struct graph *graph, struct verify_limits *limits) {
    const struct spec *spec = graph->spec;
    uint32_t bytes = 0;
    for (unsigned i = 0; i < spec->header_count; ++i) {
        bytes += spec->headers[i].type->bits / 8;
    }
    limits->reach = graph->nodes[0].reach;
    limits->emitted = graph->nodes[0].emitted;
    if (graph->nodes[0].emits > spec->header_count || limits->emitted > bytes) {
        return p4_spec_fail(
            spec, spec->apply_line, graph->fault,
            "apply: a path emits a header twice, which DPDK does not support; emit each header once");
    }
    return 0;
}

static int check_block(const struct spec *spec, const struct spec_action *action,
                       struct verify_limits *limits, struct fault *fault) {
    const struct spec_block *block = action ? &action->body : &spec->apply;
    struct graph graph = {spec, block, fault, calloc(block->count, sizeof *graph.nodes),
                          calloc(block->count + 1, sizeof *graph.stack)};
    int status = graph.nodes && graph.stack ? 0 : fail(fault, "%s: out of memory", spec->path);
    if (status == 0 && (check_words(&graph, action, limits) != 0 || link_nodes(&graph) != 0 ||
                        visit(&graph, 0) != 0 || (!action && check_emits(&graph, limits) != 0))) {
        status = -1;
    }
    free(graph.nodes);
    free(graph.stack);
    return status;
}

int p4_verify(const struct spec *spec, struct verify_limits *limits, struct fault *fault) {
    *limits = (struct verify_limits){.waits = false};
    if (spec->action_count > MAX_PER_KIND || spec->table_count > MAX_PER_KIND ||
        spec->register_count > MAX_PER_KIND || spec->meter_count > MAX_PER_KIND) {
        return fail(fault, "%.200s: more than %d actions, tables, regarrays or metarrays, the limit of DPDK",
                    spec->path, MAX_PER_KIND);
    }
    for (unsigned i = 0; i < spec->action_count; ++i) {
        if (check_block(spec, &spec->actions[i], limits, fault) != 0) {
            return -1;
        }
    }
    return check_block(spec, NULL, limits, fault);
}
