#include "model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define FORMAT "acapella-model"
#define VERSION 1
#define FLOWS_MAX (1U << 24)
#define LISTS_MAX (1U << 20)

/* The arrays of a flow while it is read. */
struct draft {
    uint8_t image[HEADER_MAX];
    struct field field[FIELDS_MAX];
    struct length length[OPERATIONS_MAX];
    struct checksum checksum[OPERATIONS_MAX];
};

/* The words of a line. `fault` is set if a word is missing or invalid. */
struct words {
    char *rest;
    const char *path;
    unsigned line;
    struct fault *fault;
    bool failed;
};

static uint64_t set_error(struct words *words, const char *problem) {
    if (!words->failed) {
        fail(words->fault, "%.300s: line %u: %s", words->path, words->line, problem);
    }
    words->failed = true;
    return 0;
}

static const char *next_word(struct words *words) {
    const char *word = strsep(&words->rest, " ");
    if (!word || !*word) {
        set_error(words, "a word is missing");
        return "";
    }
    return word;
}

static uint64_t next_number(struct words *words, uint64_t max) {
    const char *word = next_word(words);
    char *end = NULL;
    errno = 0;
    const uint64_t value = strtoull(word, &end, 10);
    return errno || end == word || *end || *word == '-' || value > max ? set_error(words, "an invalid number")
                                                                       : value;
}

static int32_t next_signed(struct words *words) {
    const char *word = next_word(words);
    char *end = NULL;
    const long value = strtol(word, &end, 10);
    return end == word || *end || value < -PACKET_MAX || value > PACKET_MAX
               ? (int32_t)set_error(words, "an invalid number")
               : (int32_t)value;
}

static double next_double(struct words *words) {
    const char *word = next_word(words);
    char *end = NULL;
    const double value = strtod(word, &end);
    return end == word || *end || !(value >= 0 && value <= DRAW_LARGEST)
               ? (double)set_error(words, "an invalid number")
               : value;
}

static int next_choice(struct words *words, const char *const *names) {
    const char *word = next_word(words);
    for (int i = 0; names[i]; ++i) {
        if (strcmp(word, names[i]) == 0) {
            return i;
        }
    }
    return (int)set_error(words, "an unknown word");
}

static const struct list *next_list(struct words *words, const struct model *model) {
    const uint64_t number = next_number(words, LISTS_MAX);
    if (number >= model->lists) {
        set_error(words, "an unknown list");
        return NULL;
    }
    return &model->list[number];
}

static void read_list(struct words *words, struct model *model) {
    if (model->flow) { /* flows have pointers to the lists */
        set_error(words, "a list after the flows");
        return;
    }
    if (model->lists == LISTS_MAX) {
        set_error(words, "too many lists");
        return;
    }
    struct list *grown = reallocarray(model->list, model->lists + 1, sizeof *model->list);
    if (!grown) {
        set_error(words, "out of memory");
        return;
    }
    model->list = grown;
    struct list *list = &model->list[model->lists++];
    const uint64_t count = next_number(words, UINT32_MAX);
    *list = (struct list){calloc(count ? count : 1, sizeof *list->value), count};
    if (count == 0 || !list->value) {
        set_error(words, count ? "out of memory" : "an empty list");
        return;
    }
    for (uint64_t i = 0; i < count && !words->failed; ++i) {
        list->value[i] = next_number(words, UINT64_MAX);
    }
}

static void read_template(struct words *words, struct flow *flow) {
    const char *hex = next_word(words);
    const size_t digits = strlen(hex);
    if (digits % 2 || digits / 2 > HEADER_MAX) {
        set_error(words, "an invalid template");
        return;
    }
    for (size_t i = 0; i < digits / 2; ++i) {
        unsigned byte = 0;
        if (sscanf(hex + 2 * i, "%2x", &byte) != 1) {
            set_error(words, "an invalid template");
        }
        flow->image[i] = (uint8_t)byte;
    }
    flow->header_bytes = (uint16_t)(digits / 2);
}

static struct flow *current_flow(const struct model *model) { return &model->flow[model->flows - 1]; }

/* Copies the arrays of the latest flow to a block of their size. */
static int keep_arrays(struct model *model) {
    struct flow *flow = current_flow(model);
    const size_t fields = flow->fields * sizeof *flow->field, lengths = flow->lengths * sizeof *flow->length;
    const size_t checksums = flow->checksums * sizeof *flow->checksum;
    uint8_t *block = malloc(fields + lengths + checksums + flow->header_bytes + 1U);
    if (!block) {
        return -1;
    }
    const struct draft *draft = model->draft;
    flow->field = memcpy(block, draft->field, fields);
    flow->checksum = memcpy(block + fields, draft->checksum, checksums);
    flow->length = memcpy(block + fields + checksums, draft->length, lengths);
    flow->image = memcpy(block + fields + checksums + lengths, draft->image, flow->header_bytes);
    return 0;
}

/* Begins a flow, whose arrays are in the draft. */
static struct flow *begin_flow(struct words *words, struct model *model) {
    if (model->flows == model->room) {
        set_error(words, "too many flows");
        return NULL;
    }
    if (model->flows && keep_arrays(model) != 0) {
        set_error(words, "out of memory");
        return NULL;
    }
    struct flow *flow = &model->flow[model->flows];
    struct draft *draft = model->draft;
    memset(draft, 0, sizeof *draft);
    *flow = (struct flow){.number = model->flows++,
                          .image = draft->image,
                          .field = draft->field,
                          .length = draft->length,
                          .checksum = draft->checksum};
    return flow;
}

static void read_flow(struct words *words, struct model *model) {
    static const char *const patterns[] = {"zeros", "ones", "aa55", "counter", "prbs31", NULL};
    struct flow *flow = begin_flow(words, model);
    if (!flow) {
        return;
    }
    flow->packets = next_number(words, UINT64_MAX);
    flow->start_ns = (int64_t)next_number(words, INT64_MAX / 4);
    flow->until_ns = (int64_t)next_number(words, INT64_MAX / 4);
    flow->rate_bps = next_number(words, UINT64_MAX / 2);
    flow->pattern = (uint8_t)next_choice(words, patterns);
    const uint64_t stamp = next_number(words, PACKET_MAX); /* 0: none */
    read_template(words, flow);
    flow->stamp = stamp ? (int32_t)stamp : -1;
    if (stamp && (stamp < flow->header_bytes || stamp > PACKET_MAX - STAMP_BYTES)) {
        set_error(words, "an invalid stamp");
    }
    flow->pattern_offset = (uint16_t)(stamp ? stamp + STAMP_BYTES : flow->header_bytes);
}

static void read_field(struct words *words, struct model *model) {
    struct flow *flow = current_flow(model);
    static const char *const kinds[] = {"increment", "interleave", "random", NULL};
    if (flow->fields == FIELDS_MAX) {
        set_error(words, "too many fields");
        return;
    }
    struct field *field = &flow->field[flow->fields++];
    field->offset = (uint16_t)next_number(words, HEADER_MAX);
    field->width = (uint8_t)next_number(words, 8);
    field->shift = (uint8_t)next_number(words, 63);
    const unsigned bits = (unsigned)next_number(words, 64);
    field->mask = bits == 64 ? UINT64_MAX : (1ULL << bits) - 1;
    field->kind = (enum field_kind)next_choice(words, kinds);
    if (field->kind == FIELD_INTERLEAVE) {
        field->list = next_list(words, model);
        field->count = field->list ? field->list->count : 0;
    } else {
        field->from = next_number(words, UINT64_MAX);
        field->step = next_number(words, UINT64_MAX);
        field->count = next_number(words, UINT64_MAX);
        field->key = next_number(words, UINT64_MAX);
    }
    if (field->width == 0 || (field->width & (field->width - 1)) || field->shift + bits > 8U * field->width ||
        field->offset + field->width > flow->header_bytes) {
        set_error(words, "a field outside of the template");
    }
}

static void read_length(struct words *words, struct model *model) {
    struct flow *flow = current_flow(model);
    if (flow->lengths == OPERATIONS_MAX) {
        set_error(words, "too many lengths");
        return;
    }
    struct length *length = &flow->length[flow->lengths++];
    length->offset = (uint16_t)next_number(words, HEADER_MAX);
    length->base = (uint16_t)next_number(words, HEADER_MAX);
    length->delta = next_signed(words);
    length->every = next_number(words, UINT64_MAX);
    if (length->offset + 2 > flow->header_bytes) {
        set_error(words, "a length outside of the template");
    }
}

static void read_checksum(struct words *words, struct model *model) {
    struct flow *flow = current_flow(model);
    if (flow->checksums == OPERATIONS_MAX) {
        set_error(words, "too many checksums");
        return;
    }
    struct checksum *checksum = &flow->checksum[flow->checksums++];
    checksum->offset = (uint16_t)next_number(words, HEADER_MAX);
    checksum->from = (uint16_t)next_number(words, HEADER_MAX);
    checksum->to = (uint16_t)next_number(words, HEADER_MAX);
    checksum->pseudo = (uint16_t)next_number(words, HEADER_MAX);
    checksum->pseudo_bytes = (uint16_t)next_number(words, 32);
    checksum->protocol = (uint16_t)next_number(words, 255);
    checksum->udp = next_number(words, 1);
    checksum->every = next_number(words, UINT64_MAX);
    if (checksum->offset + 2 > flow->header_bytes || checksum->from > flow->header_bytes ||
        checksum->to > flow->header_bytes || (checksum->to && checksum->to < checksum->from) ||
        checksum->pseudo + checksum->pseudo_bytes > flow->header_bytes) {
        set_error(words, "a checksum outside of the template");
    }
}

static struct distribution next_distribution(struct words *words) {
    static const char *const kinds[] = {"constant", "exponential", "pareto", NULL};
    struct distribution distribution = {.kind = (enum distribution_kind)next_choice(words, kinds)};
    distribution.scale = next_double(words);
    distribution.shape = next_double(words);
    distribution.key = next_number(words, UINT64_MAX);
    if (distribution.kind == DISTRIBUTION_PARETO && !(distribution.shape >= 1)) {
        set_error(words, "an invalid shape");
    }
    return distribution;
}

static void read_gap(struct words *words, struct model *model) {
    struct flow *flow = current_flow(model);
    static const char *const kinds[] = {"constant", "rate", "random", "on_off", "list", NULL};
    struct gap *gap = &flow->gap;
    *gap = (struct gap){.kind = (enum gap_kind)next_choice(words, kinds), .denominator = 1};
    switch (gap->kind) {
        case GAP_RATE:
            gap->denominator = next_number(words, UINT64_MAX / 2);
            break;
        case GAP_RANDOM:
            gap->random = next_distribution(words);
            break;
        case GAP_ON_OFF:
            gap->ns = (int64_t)next_number(words, INT64_MAX / 4);
            gap->random = next_distribution(words);
            gap->off = next_distribution(words);
            break;
        case GAP_LIST:
            gap->list = next_list(words, model);
            break;
        default:
            gap->ns = (int64_t)next_number(words, INT64_MAX / 4);
            gap->remainder = next_number(words, UINT64_MAX / 2);
            gap->denominator = next_number(words, UINT64_MAX / 2);
            break;
    }
    if (gap->denominator == 0 || (gap->kind == GAP_ON_OFF && gap->ns == 0)) {
        set_error(words, "an invalid gap");
    }
}

/* Returns the largest size, or 0 if the smallest one is less than `least`. */
static uint64_t largest_size(const struct size *size, uint64_t least) {
    uint64_t largest = size->least + (uint64_t)size->count - 1, smallest = size->least;
    if (size->list) {
        largest = smallest = size->list->value[0];
        for (uint64_t i = 0; i < size->list->count; ++i) {
            const uint64_t value = size->list->value[i];
            largest = value > largest ? value : largest;
            smallest = value < smallest ? value : smallest;
        }
    }
    return smallest < least || smallest == 0 ? 0 : largest;
}

static void read_size(struct words *words, struct model *model) {
    struct flow *flow = current_flow(model);
    static const char *const kinds[] = {"constant", "uniform", "weighted", "exponential", "list", NULL};
    struct size *size = &flow->size;
    *size = (struct size){.kind = (enum size_kind)next_choice(words, kinds), .count = 1};
    if (size->kind == SIZE_LIST || size->kind == SIZE_WEIGHTED) {
        size->list = next_list(words, model);
        size->thresholds = size->kind == SIZE_WEIGHTED ? next_list(words, model) : NULL;
        if (size->thresholds && size->list && size->thresholds->count < size->list->count) {
            set_error(words, "too few weights");
        }
    } else {
        size->least = (uint32_t)next_number(words, PACKET_MAX);
        size->count = (uint32_t)next_number(words, PACKET_MAX);
    }
    if (size->kind == SIZE_EXPONENTIAL) {
        size->mean = next_double(words);
        size->span = next_double(words);
    }
    if (size->kind != SIZE_LIST && size->kind != SIZE_CONSTANT) {
        size->key = next_number(words, UINT64_MAX);
    }
    if (words->failed) {
        return;
    }
    const uint64_t largest = largest_size(size, flow->pattern_offset);
    if (size->count == 0 || largest == 0 || largest > PACKET_MAX || size->span > 1) {
        set_error(words, "an invalid size");
        return;
    }
    model->longest = largest > model->longest ? (uint32_t)largest : model->longest;
}

static void read_version(struct words *words, struct model *model) {
    (void)model;
    if (next_number(words, UINT32_MAX) != VERSION) {
        set_error(words, "an unsupported version");
    }
}

static void read_port(struct words *words, struct model *model) {
    model->rate_bps = next_number(words, UINT64_MAX / 2);
}

static void read_flows(struct words *words, struct model *model) {
    const uint64_t room = next_number(words, FLOWS_MAX);
    if (model->flow) {
        set_error(words, "the number of flows is given twice");
        return;
    }
    model->flow = calloc(room ? room : 1, sizeof *model->flow);
    model->draft = calloc(1, sizeof *model->draft);
    model->room = (uint32_t)room;
    if (!model->flow || !model->draft) {
        set_error(words, "no memory for this number of flows");
    }
}

static void read_truncation(struct words *words, struct model *model) {
    struct truncation *truncation = &current_flow(model)->truncation;
    truncation->bytes = (uint16_t)next_number(words, PACKET_MAX);
    truncation->every = next_number(words, UINT64_MAX);
    if (truncation->bytes == 0) {
        set_error(words, "a packet without bytes");
    }
}

static const char *const line_names[] = {FORMAT,   "port",     "flows",    "list", "flow", "field",
                                         "length", "checksum", "truncate", "gap",  "size", NULL};
static void (*const line_readers[])(struct words *, struct model *) = {
    read_version, read_port,     read_flows,      read_list, read_flow, read_field,
    read_length,  read_checksum, read_truncation, read_gap,  read_size,
};
enum { FIRST_OF_FLOW = 5 }; /* index, in both lists, of the first line that must follow a flow */

static void read_line(struct words *words, struct model *model) {
    const int kind = next_choice(words, line_names);
    if (kind >= FIRST_OF_FLOW && model->flows == 0) {
        set_error(words, "this line must follow a flow");
    }
    if (!words->failed) {
        line_readers[kind](words, model);
    }
    if (!words->failed && words->rest) {
        set_error(words, "too many words");
    }
}

static bool has_malformed_packets(const struct flow *flow) {
    bool found = flow->truncation.every > 0;
    for (unsigned i = 0; i < flow->lengths; ++i) {
        found |= flow->length[i].every > 0;
    }
    for (unsigned i = 0; i < flow->checksums; ++i) {
        found |= flow->checksum[i].every > 0;
    }
    return found;
}

/* Checks that each flow has a size and a gap. */
static int check_flows(struct model *model, const char *path, struct fault *fault) {
    for (uint32_t i = 0; i < model->flows; ++i) {
        struct flow *flow = &model->flow[i];
        flow->has_malformed = has_malformed_packets(flow);
        if (flow->size.count == 0 || flow->gap.denominator == 0) {
            return fail(fault, "%.300s: flow %u has no size or no gap", path, i);
        }
    }
    return model->flows ? 0 : fail(fault, "%.300s: no flows", path);
}

int model_read(struct model *model, const char *path, struct fault *fault) {
    *model = (struct model){0};
    FILE *file = fopen(path, "re");
    if (!file) {
        return fail(fault, "%.300s: %s", path, strerror(errno));
    }
    struct words words = {.path = path, .fault = fault};
    char *line = NULL;
    size_t room = 0;
    ssize_t bytes;
    while (!words.failed && (bytes = getline(&line, &room, file)) > 0) {
        line[bytes - (line[bytes - 1] == '\n')] = '\0';
        words.rest = line;
        ++words.line;
        read_line(&words, model);
    }
    const bool failed = ferror(file);
    fclose(file);
    free(line);
    if (failed) {
        return fail(fault, "%.300s: cannot be read", path);
    }
    if (!words.failed && model->flows && keep_arrays(model) != 0) {
        return fail(fault, "%.300s: out of memory", path);
    }
    return words.failed ? -1 : check_flows(model, path, fault);
}

void model_free(struct model *model) {
    for (uint32_t i = 0; i < model->lists; ++i) {
        free(model->list[i].value);
    }
    for (uint32_t i = 0; i < model->flows; ++i) {
        struct field *block = model->flow[i].field;
        if (block != model->draft->field) { /* an error while the flow was read */
            free(block);
        }
    }
    free(model->list);
    free(model->flow);
    free(model->draft);
    *model = (struct model){0};
}
