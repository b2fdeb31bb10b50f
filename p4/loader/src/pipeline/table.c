/* Statements of tables:
 *
 *   table NAME add match KEY... [priority N] action ACTION VALUE...
 *   table NAME delete match KEY... [priority N]
 *   table NAME default action ACTION VALUE...
 *
 * KEY is VALUE (exact), VALUE/PREFIX-LENGTH (lpm), VALUE/MASK, or VALUE for all bits (wildcard). Of the
 * entries that match, the one with the smallest priority number is used. */
#include <rte_swx_table.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/control.h"
#include "spec/number.h"

#define TEXT 4096

struct statement {
    struct p4 *p4;
    const struct spec_table *table;
    char *const *word;
    unsigned words, at;
    char text[TEXT]; /* the statement in the form that DPDK reads */
    size_t size;
    struct fault *fault;
};

static bool is(const char *word, const char *other) { return strcmp(word, other) == 0; }

static bool put(struct statement *statement, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool put(struct statement *statement, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const size_t room = sizeof statement->text - statement->size;
    const int size = vsnprintf(statement->text + statement->size, room, format, arguments);
    va_end(arguments);
    statement->size += size > 0 ? (size_t)size : 0;
    return size >= 0 && (size_t)size < room;
}

static const char *next(struct statement *statement) {
    return statement->at < statement->words ? statement->word[statement->at++] : NULL;
}

/* Returns the width of "h.HEADER.FIELD" or "m.FIELD" in bits, or 0 if there is no such field. */
static uint32_t bits_of(const struct spec *spec, const char *name) {
    char header[SPEC_NAME + 2];
    const char *field = strrchr(name, '.');
    const struct spec_struct *type = NULL;
    if (field && strncmp(name, "m.", 2) == 0) {
        type = spec->metadata;
    } else if (field && field - name < (long)sizeof header) {
        memcpy(header, name, (size_t)(field - name));
        header[field - name] = '\0';
        const struct spec_header *packet_header = p4_spec_header(spec, header);
        type = packet_header ? packet_header->type : NULL;
    }
    for (unsigned i = 0; type && i < type->count; ++i) {
        if (is(type->fields[i].name, field + 1)) {
            return type->fields[i].bits;
        }
    }
    return 0;
}

static bool fits(uint64_t value, uint32_t bits) { return bits >= 64 || value >> bits == 0; }

/* Checks a number of up to 64 bits, or hexadecimal digits for a wider field, which DPDK parses. */
static int check_number(struct statement *statement, const char *word, uint32_t bits,
                        const char *field_name) {
    uint64_t value = 0;
    if (bits > 64) {
        const char *digits = strncmp(word, "0x", 2) == 0 ? word + 2 : word;
        if (*digits && strspn(digits, "0123456789abcdefABCDEF") == strlen(digits) &&
            strlen(digits) <= bits / 4) {
            return 0;
        }
        return fail(statement->fault, "%.64s: %.64s is %u bits wide: write it as 0x and up to %u digits",
                    word, field_name, bits, bits / 4);
    }
    if (!p4_number(word, &value) || !fits(value, bits)) {
        return fail(statement->fault, "%.64s: not a number that fits into the %u bits of %.64s%s", word, bits,
                    field_name, p4_number_advice(word));
    }
    return 0;
}

/* Writes /PREFIX-LENGTH as a mask with the width of the field. */
static int put_prefix(struct statement *statement, const char *word, uint32_t bits, const char *field_name) {
    uint64_t length = 0;
    if (!p4_number(word, &length) || length > bits || bits > 64) {
        return fail(statement->fault,
                    "/%.32s: not a prefix length of %.64s, which has %u bits (at most 64 are supported)%s",
                    word, field_name, bits, p4_number_advice(word));
    }
    const uint64_t all = bits == 64 ? UINT64_MAX : (1ULL << bits) - 1;
    put(statement, "/0x%llx", (unsigned long long)(length ? all & ~(all >> (length - 1) >> 1) : 0));
    return 0;
}

static int put_key(struct statement *statement, const struct spec_key *key) {
    const char *word = next(statement);
    const uint32_t bits = bits_of(&statement->p4->spec, key->name);
    char value[256];
    if (!word || is(word, "action") || is(word, "priority")) {
        return fail(statement->fault,
                    "table %s: %u keys are needed, in the order of the .spec; %.64s is missing",
                    statement->table->name, statement->table->key_count, key->name);
    }
    const char *slash = strchr(word, '/');
    const size_t size = slash ? (size_t)(slash - word) : strlen(word);
    if (size >= sizeof value) {
        return fail(statement->fault, "%.64s...: too long", word);
    }
    memcpy(value, word, size);
    value[size] = '\0';
    if (check_number(statement, value, bits, key->name) != 0) {
        return -1;
    }
    put(statement, " %s", value);
    if (key->match == SPEC_EXACT && slash) {
        return fail(statement->fault, "%.64s: %.64s is matched exactly; remove %.32s", word, key->name,
                    slash);
    } else if (key->match == SPEC_LPM) {
        char full[16];
        snprintf(full, sizeof full, "%u", bits);
        return put_prefix(statement, slash ? slash + 1 : full, bits, key->name);
    } else if (slash) {
        put(statement, "/%s", slash + 1);
        return check_number(statement, slash + 1, bits, key->name);
    }
    return 0;
}

static int put_match(struct statement *statement) {
    const char *word = next(statement);
    if (!word || !is(word, "match")) {
        return fail(statement->fault, "table %s: match and the keys are missing", statement->table->name);
    }
    if (statement->table->key_count == 0) {
        return fail(statement->fault, "table %s: has no keys; set its default", statement->table->name);
    }
    put(statement, "match");
    for (unsigned i = 0; i < statement->table->key_count; ++i) {
        if (put_key(statement, &statement->table->keys[i]) != 0) {
            return -1;
        }
    }
    if (statement->at < statement->words && is(statement->word[statement->at], "priority")) {
        next(statement);
        if (!(word = next(statement))) {
            return fail(statement->fault, "priority: its number is missing");
        }
        put(statement, " priority %s", word);
        return check_number(statement, word, 31, "priority");
    }
    return 0;
}

static int put_action(struct statement *statement, bool as_default) {
    const struct spec_table *table = statement->table;
    const char *word = next(statement), *name = word && is(word, "action") ? next(statement) : NULL;
    const struct spec_action *action = NULL;
    if (!name) {
        return fail(statement->fault, "table %s: action and its name are missing", table->name);
    }
    for (unsigned i = 0; i < table->use_count; ++i) {
        const struct spec_use *use = &table->uses[i];
        if (is(use->action, name) && (as_default ? use->as_default : use->in_table)) {
            action = p4_spec_action(&statement->p4->spec, name);
        }
    }
    if (!action) {
        return fail(statement->fault, "%.64s: not an action of %s%s", name,
                    as_default ? "the default of " : "table ", table->name);
    }
    put(statement, "%saction %s", statement->size ? " " : "", name);
    const unsigned count = action->arguments ? action->arguments->count : 0;
    for (unsigned i = 0; i < count; ++i) {
        const struct spec_field *field = &action->arguments->fields[i];
        if (!(word = next(statement))) {
            return fail(statement->fault, "%s: %u values are needed; %s is missing", name, count,
                        field->name);
        }
        if (check_number(statement, word, field->bits, field->name) != 0) {
            return -1;
        }
        put(statement, " %s %s", field->name, word);
    }
    if (statement->at < statement->words) {
        return fail(statement->fault, "%.64s: more than the %u values that %s takes",
                    statement->word[statement->at], count, name);
    }
    return 0;
}

static void free_entry(struct rte_swx_table_entry *entry) {
    if (entry) {
        free(entry->key);
        free(entry->key_mask);
        free(entry->action_data);
        free(entry);
    }
}

static int apply(struct statement *statement, const char *verb) {
    struct rte_swx_ctl_pipeline *control = statement->p4->control;
    const char *name = statement->table->name;
    const bool learner = statement->table->learner;
    if (statement->size >= sizeof statement->text) {
        return fail(statement->fault, "table %s: the line is too long", name);
    }
    struct rte_swx_table_entry *entry =
        learner ? rte_swx_ctl_pipeline_learner_default_entry_read(control, name, statement->text, NULL)
                : rte_swx_ctl_pipeline_table_entry_read(control, name, statement->text, NULL);
    int error = entry ? 0 : -1;
    if (!error) {
        error = learner              ? rte_swx_ctl_pipeline_learner_default_entry_add(control, name, entry)
                : is(verb, "add")    ? rte_swx_ctl_pipeline_table_entry_add(control, name, entry)
                : is(verb, "delete") ? rte_swx_ctl_pipeline_table_entry_delete(control, name, entry)
                                     : rte_swx_ctl_pipeline_table_default_entry_add(control, name, entry);
    }
    free_entry(entry);
    statement->p4->uncommitted = true;
    return error ? fail(statement->fault, "table %s: DPDK rejects this: %.200s", name, statement->text) : 0;
}

int p4_control_table(struct p4 *p4, char *const word[], unsigned words, struct fault *fault) {
    struct statement statement = {.p4 = p4, .word = word, .words = words, .at = 3, .fault = fault};
    if (words < 4) {
        return fail(fault, "table: needs NAME add|delete|default ...");
    }
    for (unsigned i = 0; i < p4->spec.table_count; ++i) {
        if (is(p4->spec.tables[i].name, word[1])) {
            statement.table = &p4->spec.tables[i];
        }
    }
    if (!statement.table) {
        return fail(fault, "%.64s: the program has no such table; the table lines of the .spec name them",
                    word[1]);
    }
    const bool as_default = is(word[2], "default"), add = is(word[2], "add");
    if (!as_default && !add && !is(word[2], "delete")) {
        return fail(fault, "%.64s: unknown statement of a table; use add, delete or default", word[2]);
    }
    if (statement.table->learner && !as_default) {
        return fail(fault, "%s: learns its entries itself; only its default can be set", word[1]);
    }
    if (as_default && statement.table->default_is_const) {
        return fail(fault, "%s: its default is constant", word[1]);
    }
    if ((!as_default && put_match(&statement) != 0) ||
        ((add || as_default) && put_action(&statement, as_default) != 0)) {
        return -1;
    }
    if (statement.at < words) {
        return fail(fault, "%.64s: not expected here", word[statement.at]);
    }
    return apply(&statement, word[2]);
}

int p4_commit(struct p4 *p4, struct fault *fault) {
    if (!p4->uncommitted) {
        return 0;
    }
    p4->uncommitted = false;
    return rte_swx_ctl_pipeline_commit(p4->control, 1) == 0
               ? 0
               : fail(fault,
                      "DPDK rejects all new table entries; check whether a table exceeds its "
                      "`size` in the .spec");
}
