#include "common/command_line.h"

#include <stdio.h>
#include <string.h>

error_t command_line_default(int key, struct argp_state *state) {
    struct command_line *line = state->input;
    switch (key) {
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

int command_line_read(const struct argp *argp, int argc, char **argv, void *options, struct fault *fault) {
    struct command_line line = {options, fault, false};
    *fault->text = '\0';
    /* argp prints errors in two lines, and exits */
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
