/* Tables, learners and selectors of a .spec. */
#include "spec/reader.h"

static int read_keys(struct reader *reader, struct spec_table *table) {
    static const char *const kinds[] = {"exact", "lpm", "wildcard"};
    const unsigned opened = reader->line;
    int more;
    while ((more = p4_reader_next_in(reader, "key", opened)) > 0) {
        struct spec_key key = {reader->word[0], SPEC_EXACT};
        unsigned kind = 0;
        if (reader->words != (table->learner ? 1 : 2)) {
            return p4_reader_malformed(reader, table->learner ? "FIELD" : "FIELD exact|lpm|wildcard");
        }
        while (!table->learner && kind < 3 && !is(reader->word[1], kinds[kind])) {
            ++kind;
        }
        if (kind == 3) {
            return REFUSE(reader, "%s: unknown kind of match; use exact, lpm or wildcard", reader->word[1]);
        }
        key.match = (enum spec_match)kind;
        if (!MORE(reader, table->keys, table->key_count)) {
            return p4_reader_memory(reader);
        }
        table->keys[table->key_count++] = key;
    }
    return more;
}

static int read_uses(struct reader *reader, struct spec_table *table) {
    const unsigned opened = reader->line;
    int more;
    while ((more = p4_reader_next_in(reader, "actions", opened)) > 0) {
        const bool table_only = LINE_IS(reader, NULL, "@tableonly");
        const bool default_only = LINE_IS(reader, NULL, "@defaultonly");
        if (!table_only && !default_only && reader->words != 1) {
            return p4_reader_malformed(reader, "ACTION, ACTION @tableonly or ACTION @defaultonly");
        }
        if (!p4_spec_action(reader->spec, reader->word[0])) {
            return REFUSE(reader, "%s: no such action before this line", reader->word[0]);
        }
        if (!MORE(reader, table->uses, table->use_count)) {
            return p4_reader_memory(reader);
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
        return p4_reader_malformed(reader, form);
    }
    if (table->default_action) {
        return REFUSE(reader, "default_action: already defined");
    }
    if (!p4_spec_action(reader->spec, reader->word[1])) {
        return REFUSE(reader, "%s: no such action before this line", reader->word[1]);
    }
    table->default_action = reader->word[1];
    table->default_is_const = is(reader->word[words - 1], "const");
    words -= table->default_is_const;
    const bool none = words == 4 && is(reader->word[3], "none");
    if (!none && (words < 5 || words % 2 == 0)) {
        return p4_reader_malformed(reader, form);
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
    char *text = p4_arena_allocate(&reader->spec->arena, (size_t)words * SPEC_NAME);
    if (!text) {
        return p4_reader_memory(reader);
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
    while ((more = p4_reader_next_in(reader, "timeout", opened)) > 0) {
        if (reader->words != 1 || table->timeouts == SPEC_TIMEOUTS) {
            return REFUSE(reader, "timeout: one number of seconds per line, at most %d lines", SPEC_TIMEOUTS);
        }
        if (p4_reader_number32(reader, reader->word[0], &table->timeout[table->timeouts++]) != 0) {
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
        return p4_reader_number32(reader, reader->word[1], &table->size);
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
    return REFUSE(reader, "%s: unknown statement of a %s; compile with p4c-dpdk --arch pna", reader->word[0],
                  table->learner ? "learner" : "table");
}

/* Checks the default action, which DPDK reads without a check. */
static int check_table(struct reader *reader, const struct spec_table *table) {
    for (unsigned i = 0; table->default_action && i < table->use_count; ++i) {
        if (table->uses[i].as_default && is(table->uses[i].action, table->default_action)) {
            return 0;
        }
    }
    return p4_spec_fail(reader->spec, table->line, reader->fault,
                        "%s: its default_action is missing, or is not one of its actions; compile it again",
                        table->name);
}

int p4_spec_read_table(struct reader *reader, bool learner) {
    struct spec *spec = reader->spec;
    if (!LINE_IS(reader, NULL, NULL, "{")) {
        return p4_reader_malformed(reader, learner ? "learner NAME {" : "table NAME {");
    }
    if (!MORE(reader, spec->tables, spec->table_count)) {
        return p4_reader_memory(reader);
    }
    struct spec_table *added = &spec->tables[spec->table_count];
    *added = (struct spec_table){.name = reader->word[1], .line = reader->line, .learner = learner};
    int more;
    while ((more = p4_reader_next_in(reader, added->name, added->line)) > 0) {
        if (read_table_line(reader, added) != 0) {
            return -1;
        }
    }
    ++spec->table_count;
    return more == 0 ? check_table(reader, added) : more;
}

static int read_selector_fields(struct reader *reader, struct spec_selector *selector) {
    const unsigned opened = reader->line;
    int more;
    while ((more = p4_reader_next_in(reader, "selector", opened)) > 0) {
        if (reader->words != 1) {
            return p4_reader_malformed(reader, "FIELD");
        }
        if (!MORE(reader, selector->fields, selector->count)) {
            return p4_reader_memory(reader);
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
        return p4_reader_number32(reader, reader->word[1], &selector->groups);
    }
    if (LINE_IS(reader, "n_members_per_group_max", NULL)) {
        return p4_reader_number32(reader, reader->word[1], &selector->members);
    }
    return REFUSE(reader, "%s: unknown statement of a selector", reader->word[0]);
}

int p4_spec_read_selector(struct reader *reader) {
    struct spec *spec = reader->spec;
    if (!LINE_IS(reader, "selector", NULL, "{")) {
        return p4_reader_malformed(reader, "selector NAME {");
    }
    if (!MORE(reader, spec->selectors, spec->selector_count)) {
        return p4_reader_memory(reader);
    }
    struct spec_selector *added = &spec->selectors[spec->selector_count];
    *added = (struct spec_selector){.name = reader->word[1], .line = reader->line};
    int more;
    while ((more = p4_reader_next_in(reader, added->name, added->line)) > 0) {
        if (read_selector_line(reader, added) != 0) {
            return -1;
        }
    }
    ++spec->selector_count;
    if (more == 0 && !(added->group_id && added->member_id && added->count)) {
        return p4_spec_fail(spec, added->line, reader->fault,
                            "%s: a selector needs group_id, selector and member_id; compile it again",
                            added->name);
    }
    return more;
}
