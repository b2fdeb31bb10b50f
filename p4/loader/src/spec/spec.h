/* The statements of a .spec file, with line numbers. Nothing here depends on DPDK. The language is that of
 * DPDK's SWX pipeline (prog_guide, "Packet framework"), as p4c-dpdk writes it. */
#ifndef ACAPELLA_P4_SPEC_H
#define ACAPELLA_P4_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "common/fault.h"
#include "spec/arena.h"

#define SPEC_NAME 64         /* a name with its terminating zero: RTE_SWX_NAME_SIZE */
#define SPEC_INSTRUCTION 256 /* RTE_SWX_INSTRUCTION_SIZE */
#define SPEC_WORDS 16        /* of an instruction: RTE_SWX_INSTRUCTION_TOKENS_MAX */
#define SPEC_TIMEOUTS 16

struct spec_field {
    const char *name;
    uint32_t bits;
};

struct spec_struct {
    const char *name;
    unsigned line;
    struct spec_field *fields;
    unsigned count;
    bool variable; /* the last field is a varbit */
    uint32_t bits; /* of all fields, with the longest varbit */
};

struct spec_header {
    const char *name;
    unsigned line;
    const struct spec_struct *type;
};

struct spec_instruction {
    unsigned line;
    const char *label; /* NULL if none */
    const char *word[SPEC_WORDS];
    unsigned words; /* without label and colon */
};

struct spec_block {
    struct spec_instruction *instructions;
    unsigned count;
};

struct spec_action {
    const char *name;
    unsigned line;
    const struct spec_struct *arguments; /* NULL if none */
    struct spec_block body;
};

enum spec_match { SPEC_EXACT, SPEC_LPM, SPEC_WILDCARD };

struct spec_key {
    const char *name;
    enum spec_match match;
};

struct spec_use {
    const char *action;
    bool in_table, as_default;
};

/* A table, or a learner. */
struct spec_table {
    const char *name;
    unsigned line;
    bool learner;
    struct spec_key *keys;
    unsigned key_count;
    struct spec_use *uses;
    unsigned use_count;
    const char *default_action;
    const char *default_arguments; /* "NAME VALUE ..."; NULL if none */
    bool default_is_const;
    const char *type, *hash, *pragma; /* NULL if not set */
    uint32_t size;
    uint32_t timeout[SPEC_TIMEOUTS];
    unsigned timeouts;
};

struct spec_selector {
    const char *name;
    unsigned line;
    const char *group_id, *member_id;
    const char **fields;
    unsigned count;
    uint32_t groups, members;
};

/* regarray or metarray. */
struct spec_array {
    const char *name;
    unsigned line;
    uint32_t size;
    uint64_t initial;
};

struct spec {
    struct arena arena;
    const char *path;
    struct spec_struct *structs;
    struct spec_header *headers;
    struct spec_action *actions;
    struct spec_table *tables;
    struct spec_selector *selectors;
    struct spec_array *registers, *meters;
    unsigned struct_count, header_count, action_count, table_count, selector_count, register_count,
        meter_count;
    const struct spec_struct *metadata;
    unsigned metadata_line;
    unsigned mirror_slots, mirror_sessions; /* 0: not set */
    struct spec_block apply;
    unsigned apply_line;
};

/* Reads a .spec. Returns 0, or -1 with the reason in fault. Call p4_spec_free in both cases. */
int p4_spec_read(struct spec *spec, const char *path, struct fault *fault);
void p4_spec_free(struct spec *spec);

const struct spec_struct *p4_spec_struct(const struct spec *spec, const char *name);
/* Finds a header by its name in an instruction, "h.NAME". */
const struct spec_header *p4_spec_header(const struct spec *spec, const char *word);
const struct spec_action *p4_spec_action(const struct spec *spec, const char *name);
const struct spec_array *p4_spec_register(const struct spec *spec, const char *name);

/* Writes FILE:LINE: and the message to the fault; returns -1. */
int p4_spec_fail(const struct spec *spec, unsigned line, struct fault *fault, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
