/* The language of control files and commands: one statement per line. */
#include "pipeline/control.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "spec/number.h"

#define LINE 4096
#define WORDS 64
#define BLANK " \t\r\n\f\v"

struct line {
    struct p4 *p4;
    char text[LINE];
    char *word[WORDS];
    unsigned words;
    char *answer;
    size_t answer_size, answered;
    struct fault *fault;
};

static bool is(const char *word, const char *other) { return strcmp(word, other) == 0; }

static void answer(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void answer(struct line *line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (line->answered < line->answer_size) {
        const int size =
            vsnprintf(line->answer + line->answered, line->answer_size - line->answered, format, arguments);
        line->answered += size > 0 ? (size_t)size : 0;
    }
    va_end(arguments);
}

static int parse_number(struct line *line, const char *word, uint64_t *to) {
    return p4_number(word, to) ? 0
                               : fail(line->fault, "%.64s: not a number; write it as 10 or 0x0a%s", word,
                                      p4_number_advice(word));
}

static const struct spec_array *find_register(struct line *line, const char *name, uint64_t index,
                                              uint64_t count) {
    const struct spec_array *array = p4_spec_register(&line->p4->spec, name);
    if (!array) {
        fail(line->fault,
             "%.64s: the program has no such register; the regarray lines of the .spec name them", name);
    } else if (index >= array->size || count > array->size - index) {
        fail(line->fault, "%.64s: index out of range; the indices are 0 to %u", name, array->size - 1);
        array = NULL;
    }
    return array;
}

/* register NAME INDEX VALUE [COUNT] */
static int write_register(struct line *line) {
    uint64_t index = 0, value = 0, count = 1;
    if (line->words < 4 || line->words > 5) {
        return fail(line->fault, "register: needs NAME INDEX VALUE [COUNT]");
    }
    if (parse_number(line, line->word[2], &index) != 0 || parse_number(line, line->word[3], &value) != 0 ||
        (line->words == 5 && parse_number(line, line->word[4], &count) != 0) ||
        !find_register(line, line->word[1], index, count)) {
        return -1;
    }
    for (uint64_t i = 0; i < count; ++i) {
        rte_swx_ctl_pipeline_regarray_write(line->p4->pipeline, line->word[1], (uint32_t)(index + i), value);
    }
    return 0;
}

/* read NAME INDEX [COUNT] */
static int read_register(struct line *line) {
    uint64_t index = 0, count = 1, value = 0;
    if (line->words < 3 || line->words > 4) {
        return fail(line->fault, "read: needs NAME INDEX [COUNT]");
    }
    if (parse_number(line, line->word[2], &index) != 0 ||
        (line->words == 4 && parse_number(line, line->word[3], &count) != 0) ||
        !find_register(line, line->word[1], index, count)) {
        return -1;
    }
    if (count > P4_MAX_READ) {
        return fail(line->fault, "read: at most %d values at once; --dump-registers writes all", P4_MAX_READ);
    }
    for (uint64_t i = 0; i < count; ++i) {
        rte_swx_ctl_pipeline_regarray_read(line->p4->pipeline, line->word[1], (uint32_t)(index + i), &value);
        answer(line, "%s%llu", i ? " " : "", (unsigned long long)value);
    }
    return 0;
}

/* reason N NAME */
static int name_reason(struct line *line) {
    uint64_t reason = 0;
    if (line->words != 3) {
        return fail(line->fault, "reason: needs N NAME");
    }
    if (parse_number(line, line->word[1], &reason) != 0) {
        return -1;
    }
    if (reason >= P4_REASONS) {
        return fail(line->fault, "reason %s: not a number from 0 to %d", line->word[1], P4_REASONS - 1);
    }
    char *name = strdup(line->word[2]);
    if (!name) {
        return fail(line->fault, "out of memory");
    }
    free(line->p4->reasons[reason]);
    line->p4->reasons[reason] = name;
    return 0;
}

/* mirror SESSION PORT [BYTES] */
static int set_mirror(struct line *line) {
    uint64_t session = 0, port = 0, max_length = 0;
    if (line->words < 3 || line->words > 4) {
        return fail(line->fault, "mirror: needs SESSION PORT [BYTES]");
    }
    if (parse_number(line, line->word[1], &session) != 0 || parse_number(line, line->word[2], &port) != 0 ||
        (line->words == 4 && parse_number(line, line->word[3], &max_length) != 0)) {
        return -1;
    }
    struct rte_swx_pipeline_mirroring_session_params params = {
        .port_id = (uint32_t)port, .fast_clone = line->words == 3, .truncation_length = (uint32_t)max_length};
    if (port > WIRE_SINK || max_length > P4_FRAME_MAX || (line->words == 4 && max_length == 0) ||
        session > UINT32_MAX ||
        rte_swx_ctl_pipeline_mirroring_session_set(line->p4->pipeline, (uint32_t)session, &params) != 0) {
        return fail(line->fault,
                    "mirror %s %s: unknown session, port other than 0 (out) and 1 (sink), or length not "
                    "from 1 to %d bytes",
                    line->word[1], line->word[2], P4_FRAME_MAX);
    }
    return 0;
}

static int execute(struct line *line) {
    const char *word = line->word[0];
    if (is(word, "register")) {
        return write_register(line);
    } else if (is(word, "read")) {
        return read_register(line);
    } else if (is(word, "table")) {
        return p4_control_table(line->p4, line->word, line->words, line->fault);
    } else if (is(word, "reason")) {
        return name_reason(line);
    } else if (is(word, "mirror")) {
        return set_mirror(line);
    } else if (is(word, "epoch") || is(word, "epoch-clear")) {
        return p4_control_epoch(line->p4, line->word, line->words, line->fault);
    }
    return fail(line->fault,
                "%.64s: unknown statement; use register, read, table, reason, mirror, epoch or epoch-clear",
                word);
}

static int read_line(struct p4 *p4, const char *text, char *to, size_t size, struct fault *fault) {
    struct line line = {.p4 = p4, .answer = to, .answer_size = size, .fault = fault};
    char *rest = NULL;
    if (size) {
        *to = '\0';
    }
    if (strlen(text) >= sizeof line.text) {
        return fail(fault, "a line of more than %d characters; use several lines", LINE - 1);
    }
    strcpy(line.text, text);
    for (char *word = strtok_r(line.text, BLANK, &rest); word && *word != '#';
         word = strtok_r(NULL, BLANK, &rest)) {
        if (line.words == WORDS) {
            return fail(fault, "more than %d words on a line", WORDS);
        }
        line.word[line.words++] = word;
    }
    return line.words ? execute(&line) : 0;
}

int p4_command(struct p4 *p4, const char *text, char *to, size_t size, struct fault *fault) {
    return read_line(p4, text, to, size, fault) == 0 ? p4_commit(p4, fault) : -1;
}

int p4_control(struct p4 *p4, const char *path, struct fault *fault) {
    FILE *file = fopen(path, "re");
    char text[LINE + 1];
    struct fault inner;
    int status = 0;
    if (!file) {
        return fail(fault, "%.200s: %s%s", path, strerror(errno), read_advice(errno));
    }
    for (unsigned number = 1; status == 0 && fgets(text, sizeof text, file); ++number) {
        if (read_line(p4, text, NULL, 0, &inner) != 0) {
            status = fail(fault, "%.150s:%u: %.300s", path, number, inner.text);
        }
    }
    if (status == 0 && ferror(file)) {
        status = fail(fault, "%.200s: %s%s", path, strerror(errno), read_advice(errno));
    }
    fclose(file);
    if (status == 0 && p4_commit(p4, &inner) != 0) {
        status = fail(fault, "%.150s: %.300s", path, inner.text);
    }
    return status;
}

const char *p4_reason(const struct p4 *p4, uint8_t reason) {
    static char unnamed[P4_REASONS][16];
    if (p4->reasons[reason]) {
        return p4->reasons[reason];
    }
    snprintf(unnamed[reason], sizeof unnamed[reason], "reason-%u", reason);
    return unnamed[reason];
}

int p4_dump_registers(const struct p4 *p4, FILE *to) {
    fputc('{', to);
    for (unsigned i = 0; i < p4->spec.register_count; ++i) {
        const struct spec_array *array = &p4->spec.registers[i];
        fprintf(to, "%s\n\"%s\": [", i ? "," : "", array->name);
        for (uint32_t j = 0; j < array->size; ++j) {
            uint64_t value = 0;
            rte_swx_ctl_pipeline_regarray_read(p4->pipeline, array->name, j, &value);
            fprintf(to, "%s%llu", j ? "," : "", (unsigned long long)value);
        }
        fputc(']', to);
    }
    fputs("\n}\n", to);
    return ferror(to) ? -1 : 0;
}
