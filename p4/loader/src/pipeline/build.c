#include "pipeline/build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spec/guard.h"

#define MIN_BYTES (64ULL << 20)

static const char *error_text(int error) {
    switch (-error) {
        case 17: /* EEXIST */
            return "the name already exists";
        case 12: /* ENOMEM */
            return "not enough memory";
        case 19: /* ENODEV */
            return "it could not be created";
        case 28: /* ENOSPC */
            return "there are too many";
        default:
            return "it is not valid";
    }
}

/* Reports an object that DPDK rejected. */
static int report_rejected(const struct spec *spec, unsigned line, struct fault *fault, const char *kind,
                           const char *name, int error) {
    return p4_spec_fail(spec, line, fault,
                        "%s %.64s: DPDK rejects it: %s; change the .p4 and compile it again", kind, name,
                        error_text(error));
}

static uint64_t round_up_to_power_of_2(uint64_t value) {
    uint64_t power = 1;
    while (power < value) {
        power *= 2;
    }
    return power;
}

uint64_t p4_build_memory(const struct spec *spec) {
    uint64_t bytes = MIN_BYTES;
    for (unsigned i = 0; i < spec->register_count; ++i) {
        bytes += round_up_to_power_of_2(spec->registers[i].size) * 8 + 4096;
    }
    for (unsigned i = 0; i < spec->meter_count; ++i) {
        bytes += round_up_to_power_of_2(spec->meters[i].size) * 128 + 4096;
    }
    for (unsigned i = 0; i < spec->table_count;
         ++i) { /* twice during a change of entries: key, data, buckets */
        bytes += round_up_to_power_of_2(spec->tables[i].size) * 1024;
    }
    for (unsigned i = 0; i < spec->selector_count; ++i) {
        bytes +=
            (uint64_t)spec->selectors[i].groups * round_up_to_power_of_2(spec->selectors[i].members) * 16;
    }
    return bytes + bytes / 4;
}

static int add_ports(struct rte_swx_pipeline *pipeline, const struct build_ports *ports) {
    int error = rte_swx_pipeline_port_in_type_register(pipeline, "acapella", ports->in);
    if (!error) {
        error = rte_swx_pipeline_port_out_type_register(pipeline, "acapella", ports->out);
    }
    for (unsigned i = 0; !error && i < ports->in_count; ++i) {
        error = rte_swx_pipeline_port_in_config(pipeline, i, "acapella", ports->in_arguments[i]);
    }
    for (unsigned i = 0; !error && i < ports->out_count; ++i) {
        error = rte_swx_pipeline_port_out_config(pipeline, i, "acapella", ports->out_arguments[i]);
    }
    return error;
}

static int add_structs(struct rte_swx_pipeline *pipeline, const struct spec *spec, struct fault *fault) {
    for (unsigned i = 0; i < spec->struct_count; ++i) {
        const struct spec_struct *from = &spec->structs[i];
        struct rte_swx_field_params *fields = calloc(from->count + 1, sizeof *fields);
        for (unsigned j = 0; fields && j < from->count; ++j) {
            fields[j] = (struct rte_swx_field_params){from->fields[j].name, from->fields[j].bits};
        }
        const int error = fields ? rte_swx_pipeline_struct_type_register(pipeline, from->name, fields,
                                                                         from->count, from->variable)
                                 : -12;
        free(fields);
        if (error) {
            return report_rejected(spec, from->line, fault, "struct", from->name, error);
        }
    }
    return 0;
}

static int add_headers(struct rte_swx_pipeline *pipeline, const struct spec *spec, struct fault *fault) {
    for (unsigned i = 0; i < spec->header_count; ++i) {
        const struct spec_header *from = &spec->headers[i];
        const int error = rte_swx_pipeline_packet_header_register(pipeline, from->name, from->type->name);
        if (error) {
            return report_rejected(spec, from->line, fault, "header", from->name, error);
        }
    }
    const int error = rte_swx_pipeline_packet_metadata_register(pipeline, spec->metadata->name);
    return error ? report_rejected(spec, spec->metadata_line, fault, "metadata", spec->metadata->name, error)
                 : 0;
}

static int add_arrays(struct rte_swx_pipeline *pipeline, const struct spec *spec, struct fault *fault) {
    for (unsigned i = 0; i < spec->register_count; ++i) {
        const struct spec_array *from = &spec->registers[i];
        const int error = rte_swx_pipeline_regarray_config(pipeline, from->name, from->size, from->initial);
        if (error) {
            return report_rejected(spec, from->line, fault, "regarray", from->name, error);
        }
    }
    for (unsigned i = 0; i < spec->meter_count; ++i) {
        const struct spec_array *from = &spec->meters[i];
        const int error = rte_swx_pipeline_metarray_config(pipeline, from->name, from->size);
        if (error) {
            return report_rejected(spec, from->line, fault, "metarray", from->name, error);
        }
    }
    return 0;
}

static int configure(struct rte_swx_pipeline *pipeline, const struct spec_action *action, const char **texts,
                     unsigned count) {
    return action
               ? rte_swx_pipeline_action_config(
                     pipeline, action->name, action->arguments ? action->arguments->name : NULL, texts, count)
               : rte_swx_pipeline_instructions_config(pipeline, texts, count);
}

/* Returns the index of the rejected instruction. DPDK does not report it, so each one is tried alone in a
 * valid block. */
static unsigned find_rejected(struct rte_swx_pipeline *pipeline, const struct spec *spec,
                              const struct spec_action *action, const struct guarded *guarded) {
    const char *rx = NULL;
    char name[SPEC_NAME], end[SPEC_INSTRUCTION], text[SPEC_INSTRUCTION];
    (void)spec;
    for (unsigned i = 0; i < guarded->count; ++i) {
        const char *jump = guarded->jump[i], *after = strstr(guarded->texts[i], " : ");
        const bool is_rx = !action && i == 0;
        snprintf(text, sizeof text, "%s", after ? after + 3 : guarded->texts[i]);
        snprintf(end, sizeof end, "%s%s%s", jump ? jump : "", jump ? " : " : "", action ? "return" : "tx 0");
        rx = action ? "" : guarded->texts[0];
        const char *block[3] = {rx, text, end};
        snprintf(name, sizeof name, "acapella_probe_%u", i);
        const struct spec_action probe = {.name = name, .arguments = action ? action->arguments : NULL};
        const int error = action  ? configure(pipeline, &probe, block + 1, 2)
                          : is_rx ? configure(pipeline, NULL, (const char *[]){text, "tx 0"}, 2)
                                  : configure(pipeline, NULL, block, 3);
        if (error) {
            return i;
        }
    }
    return guarded->count;
}

/* Returns the remedy for a rejected instruction (lib/pipeline/rte_swx_pipeline.c, instr_*_translate). */
static const char *remedy(const char *text) {
    static const struct {
        const char *word, *hint;
    } hints[] = {
        {"hash ",
         "its result must be a metadata field, its arguments the first and the last field of one struct"},
        {"jmp", "its first operand must be a field of at most 64 bits"},
        {"meter ", "its length must be a field"},
        {"mov ", "both operands must have at most 64 bits, or the same size"},
        {"learn ", "its arguments must be metadata fields"},
        {"extract ", "a length is required for a header with a varbit, and not allowed for others"},
    };
    const char *label = strstr(text, " : ");
    text = label ? label + 3 : text;
    for (unsigned i = 0; i < sizeof hints / sizeof *hints; ++i) {
        if (strncmp(text, hints[i].word, strlen(hints[i].word)) == 0) {
            return hints[i].hint;
        }
    }
    return "change the .p4 and compile it again";
}

static int add_block(struct rte_swx_pipeline *pipeline, const struct spec *spec,
                     const struct spec_action *action, struct fault *fault) {
    const struct spec_block *block = action ? &action->body : &spec->apply;
    const unsigned line = action ? action->line : spec->apply_line;
    struct guarded guarded;
    if (p4_guard(&guarded, spec, block, fault) != 0) {
        return -1;
    }
    const int error = configure(pipeline, action, guarded.texts, guarded.count);
    int status = 0;
    if (error) {
        const unsigned at = error == -22 ? find_rejected(pipeline, spec, action, &guarded) : guarded.count;
        status = at < guarded.count ? p4_spec_fail(spec, guarded.line[at], fault,
                                                   "%.150s: DPDK rejects this instruction; %s",
                                                   guarded.texts[at], remedy(guarded.texts[at]))
                                    : report_rejected(spec, line, fault, action ? "action" : "apply",
                                                      action ? action->name : "block", error);
    }
    p4_guarded_free(&guarded);
    return status;
}

static enum rte_swx_table_match_type match_of(enum spec_match match) {
    return match == SPEC_EXACT ? RTE_SWX_TABLE_MATCH_EXACT
           : match == SPEC_LPM ? RTE_SWX_TABLE_MATCH_LPM
                               : RTE_SWX_TABLE_MATCH_WILDCARD;
}

/* Keys and actions of a table, for DPDK. */
struct columns {
    struct rte_swx_match_field_params *fields;
    const char **names, **actions;
    int *in_table, *as_default;
};

static bool columns_make(struct columns *columns, const struct spec_table *from) {
    const unsigned keys = from->key_count + 1, uses = from->use_count + 1;
    *columns = (struct columns){
        calloc(keys, sizeof *columns->fields),     calloc(keys, sizeof *columns->names),
        calloc(uses, sizeof *columns->actions),    calloc(uses, sizeof *columns->in_table),
        calloc(uses, sizeof *columns->as_default),
    };
    if (!columns->fields || !columns->names || !columns->actions || !columns->in_table ||
        !columns->as_default) {
        return false;
    }
    for (unsigned i = 0; i < from->key_count; ++i) {
        columns->fields[i] =
            (struct rte_swx_match_field_params){from->keys[i].name, match_of(from->keys[i].match)};
        columns->names[i] = from->keys[i].name;
    }
    for (unsigned i = 0; i < from->use_count; ++i) {
        columns->actions[i] = from->uses[i].action;
        columns->in_table[i] = from->uses[i].in_table;
        columns->as_default[i] = from->uses[i].as_default;
    }
    return true;
}

static void columns_free(struct columns *columns) {
    free(columns->fields);
    free(columns->names);
    free(columns->actions);
    free(columns->in_table);
    free(columns->as_default);
}

static int add_plain(struct rte_swx_pipeline *pipeline, const struct spec_table *from,
                     const struct columns *columns) {
    struct rte_swx_pipeline_table_params params = {
        /* DPDK rejects an empty array */
        .fields = from->key_count ? columns->fields : NULL,
        .n_fields = from->key_count,
        .action_names = columns->actions,
        .action_is_for_table_entries = columns->in_table,
        .action_is_for_default_entry = columns->as_default,
        .n_actions = from->use_count,
        .default_action_name = from->default_action,
        .default_action_args = from->default_arguments,
        .default_action_is_const = from->default_is_const,
        .hash_func_name = from->hash,
    };
    return rte_swx_pipeline_table_config(pipeline, from->name, &params, from->type, from->pragma, from->size);
}

static int add_learner(struct rte_swx_pipeline *pipeline, const struct spec_table *from,
                       const struct columns *columns) {
    struct rte_swx_pipeline_learner_params params = {
        .field_names = columns->names,
        .n_fields = from->key_count,
        .action_names = columns->actions,
        .action_is_for_table_entries = columns->in_table,
        .action_is_for_default_entry = columns->as_default,
        .n_actions = from->use_count,
        .default_action_name = from->default_action,
        .default_action_args = from->default_arguments,
        .default_action_is_const = from->default_is_const,
        .hash_func_name = from->hash,
    };
    uint32_t timeouts[SPEC_TIMEOUTS];
    memcpy(timeouts, from->timeout, sizeof timeouts);
    return rte_swx_pipeline_learner_config(pipeline, from->name, &params, from->size, timeouts,
                                           from->timeouts);
}

static int add_tables(struct rte_swx_pipeline *pipeline, const struct spec *spec, struct fault *fault) {
    for (unsigned i = 0; i < spec->table_count; ++i) {
        const struct spec_table *from = &spec->tables[i];
        struct columns columns;
        const int error = !columns_make(&columns, from) ? -12
                          : from->learner               ? add_learner(pipeline, from, &columns)
                                                        : add_plain(pipeline, from, &columns);
        columns_free(&columns);
        if (error) {
            return report_rejected(spec, from->line, fault, from->learner ? "learner" : "table", from->name,
                                   error);
        }
    }
    for (unsigned i = 0; i < spec->selector_count; ++i) {
        const struct spec_selector *from = &spec->selectors[i];
        struct rte_swx_pipeline_selector_params params = {from->group_id,  from->fields, from->count,
                                                          from->member_id, from->groups, from->members};
        const int error = rte_swx_pipeline_selector_config(pipeline, from->name, &params);
        if (error) {
            return report_rejected(spec, from->line, fault, "selector", from->name, error);
        }
    }
    return 0;
}

static int add_all(struct rte_swx_pipeline *pipeline, const struct spec *spec,
                   const struct build_ports *ports, struct fault *fault) {
    if (add_ports(pipeline, ports) != 0) {
        return fail(fault, "%s: no memory for the pipeline's ports", spec->path);
    }
    if (spec->mirror_slots) {
        struct rte_swx_pipeline_mirroring_params params = {spec->mirror_slots, spec->mirror_sessions};
        if (rte_swx_pipeline_mirroring_config(pipeline, &params) != 0) {
            return fail(fault, "%s: no memory for mirroring", spec->path);
        }
    }
    if (add_structs(pipeline, spec, fault) != 0 || add_headers(pipeline, spec, fault) != 0 ||
        add_arrays(pipeline, spec, fault) != 0) {
        return -1;
    }
    for (unsigned i = 0; i < spec->action_count; ++i) {
        if (add_block(pipeline, spec, &spec->actions[i], fault) != 0) {
            return -1;
        }
    }
    if (add_tables(pipeline, spec, fault) != 0 || add_block(pipeline, spec, NULL, fault) != 0) {
        return -1;
    }
    const int error = rte_swx_pipeline_build(pipeline);
    return error ? fail(fault,
                        "%s: the pipeline cannot be built: %s; its registers and tables take about %llu MB",
                        spec->path, error_text(error), (unsigned long long)(p4_build_memory(spec) >> 20))
                 : 0;
}

struct rte_swx_pipeline *p4_build(const struct spec *spec, const struct build_ports *ports,
                                  struct fault *fault) {
    struct rte_swx_pipeline *pipeline = NULL;
    if (rte_swx_pipeline_config(&pipeline, NULL, 0) != 0) {
        fail(fault, "%s: no memory for a pipeline", spec->path);
        return NULL;
    }
    if (add_all(pipeline, spec, ports, fault) != 0) {
        rte_swx_pipeline_free(pipeline);
        return NULL;
    }
    return pipeline;
}
