/* The command line, by argp: help, version, and errors of one line. */
#ifndef ACAPELLA_COMMAND_LINE_H
#define ACAPELLA_COMMAND_LINE_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/fault.h"

/* Keys of a program's own options begin here. */
enum { OPTION_HELP = 256, OPTION_VERSION, OPTION_OWN };

#define COMMON_OPTIONS                                                       \
    {"help", OPTION_HELP, NULL, 0, "Print this help and exit", -1}, {        \
        "version", OPTION_VERSION, NULL, 0, "Print the version and exit", -1 \
    }

/* The `input` of a parser. */
struct command_line {
    void *options; /* the program's */
    struct fault *fault;
    bool printed; /* help or version */
};

/* For keys that a program's parser does not know: help, version, errors. */
error_t command_line_default(int key, struct argp_state *state);

/* Parses argv; options end at the first argument that is not an option. `argp_program_version` is the version
 * to print. 0; 1: help or version was printed; -1: see fault. */
int command_line_read(const struct argp *argp, int argc, char **argv, void *options, struct fault *fault);

/* Parse the value of option --NAME. A size may end in K, M or G. -1: see fault. */
int option_size(uint64_t *to, const char *text, const char *name, uint64_t least, uint64_t most,
                struct fault *fault);
int option_number(unsigned *to, const char *text, const char *name, unsigned least, unsigned most,
                  struct fault *fault);

/* Returns the index of a word in a list that ends with NULL. */
int option_choice(const char *text, const char *name, const char *const *words, struct fault *fault);

#endif
