/* Parses the command line with argp: help, version, and one-line errors. */
#ifndef ACAPELLA_COMMAND_LINE_H
#define ACAPELLA_COMMAND_LINE_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/eal.h"
#include "common/fault.h"

/* Keys of the options that a program defines begin at OPTION_OWN. */
enum { OPTION_HELP = 256, OPTION_VERSION, OPTION_OWN };

#define COMMON_OPTIONS                                                       \
    {"help", OPTION_HELP, NULL, 0, "Print this help and exit", -1}, {        \
        "version", OPTION_VERSION, NULL, 0, "Print the version and exit", -1 \
    }

/* Option groups in the help text: ports are first, CPU and memory are last. */
enum { EAL_GROUP_PORTS = 1, EAL_GROUP_RESOURCES = 10 };

/* Children of the argp of a program that uses DPDK's ports: options for devices, CPUs and memory, and the
 * arguments for EAL after --. They are stored in `eal` of the command line. */
extern const struct argp_child eal_options[];

/* The `input` of a parser. */
struct command_line {
    void *options;            /* the program's */
    struct eal_settings *eal; /* NULL if the program does not use eal_options */
    struct fault *fault;
    bool printed; /* help or version */
};

/* Handles keys that the parser of a program does not handle: help, version, errors. */
error_t command_line_default(int key, struct argp_state *state);

/* Parses argv, in which arguments may precede options; options end at --. `argp_program_version` is the
 * version to print. Returns 0, 1 if help or version was printed, or -1 with the reason in fault. */
int command_line_read(const struct argp *argp, int argc, char **argv, void *options, struct eal_settings *eal,
                      struct fault *fault);

/* Parse the value of option --NAME, which may end in K, M or G. Return 0, or -1 with the reason in fault. */
int option_size(uint64_t *to, const char *text, const char *name, uint64_t min, uint64_t max,
                struct fault *fault);
int option_number(unsigned *to, const char *text, const char *name, unsigned min, unsigned max,
                  struct fault *fault);

/* Returns the index of a word in a list that ends with NULL, or -1 with the reason in fault. */
int option_choice(const char *text, const char *name, const char *const *words, struct fault *fault);

#endif
