#include "common/command_line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

error_t command_line_default(int key, struct argp_state *state) {
    struct command_line *line = state->input;
    switch (key) {
        case ARGP_KEY_INIT:
            if (line->eal) {
                state->child_inputs[0] = line;
            }
            return 0;
        case OPTION_HELP:
        case OPTION_VERSION:
            if (key == OPTION_HELP) {
                const unsigned parts = ARGP_HELP_SHORT_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC;
                argp_help(state->root_argp, stdout, parts, state->name);
            } else {
                puts(argp_program_version);
            }
            line->printed = true;
            state->next = state->argc;
            return 0;
        case ARGP_KEY_ERROR:
            if (!*line->fault->text) {
                fail(line->fault, "%s: unknown option or missing value; see --help",
                     state->argv[state->next - 1]);
            }
            return 0;
        default:
            return ARGP_ERR_UNKNOWN;
    }
}

int command_line_read(const struct argp *argp, int argc, char **argv, void *options, struct eal_settings *eal,
                      struct fault *fault) {
    struct command_line line = {options, eal, fault, false};
    *fault->text = '\0';
    /* by default, argp prints errors in two lines and exits */
    const unsigned flags = ARGP_NO_ERRS | ARGP_NO_HELP | ARGP_IN_ORDER;
    const error_t error = argp_parse(argp, argc, argv, flags, NULL, &line);
    if (line.printed) {
        return 1;
    }
    if (error && !*fault->text) {
        fail(fault, "command line: %s", strerror(error));
    }
    return error ? -1 : 0;
}

int option_size(uint64_t *to, const char *text, const char *name, uint64_t min, uint64_t max,
                struct fault *fault) {
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    static const char units[] = "KMG";
    const char *unit = *end ? strchr(units, *end) : NULL;
    const unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    if (unit) {
        ++end;
    }
    if (errno || end == text || *end || *text == '-' || value > UINT64_MAX >> shift || value << shift < min ||
        value << shift > max) {
        return fail(fault, "--%s %s: not a whole number from %llu to %llu; see --help", name, text,
                    (unsigned long long)min, (unsigned long long)max);
    }
    *to = value << shift;
    return 0;
}

int option_number(unsigned *to, const char *text, const char *name, unsigned min, unsigned max,
                  struct fault *fault) {
    uint64_t value = 0;
    const int status = option_size(&value, text, name, min, max, fault);
    *to = status == 0 ? (unsigned)value : *to;
    return status;
}

int option_choice(const char *text, const char *name, const char *const *words, struct fault *fault) {
    for (int i = 0; words[i]; ++i) {
        if (strcmp(text, words[i]) == 0) {
            return i;
        }
    }
    return fail(fault, "--%s %s: unknown value; see --help", name, text);
}
