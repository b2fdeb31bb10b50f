#include "command/options.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/command_line.h"

enum {
    SPEC = OPTION_OWN,
    IN,
    DESCRIPTOR,
    PARENT,
    OUT,
    CONTROL,
    STATS,
    REGISTERS,
    FRAMES,
    INTERFACE,
    COMMANDS,
    PACE,
    BURST,
    LIBRARY,
    GENERATE,
};

#define MAX_BURST 4096

/* Option groups, in the order of the help text. */
enum { PROGRAM_GROUP = 1, INPUT, OUTPUT };

static const struct argp_option known[] = {
    {NULL, 0, NULL, 0, "Program:", PROGRAM_GROUP},
    {"spec", SPEC, "PATH", 0, "Run the program in this .spec file (required)", PROGRAM_GROUP},
    {"control", CONTROL, "PATH", 0,
     "Read tables, registers, names of drop reasons and epochs from a control file; may be repeated "
     "(default: none)",
     PROGRAM_GROUP},
    {"commands", COMMANDS, NULL, 0,
     "Execute control statements from standard input while frames are processed, and print a line for each",
     PROGRAM_GROUP},
    {"generate", GENERATE, "PATH", 0,
     "Write the C code of the program, from DPDK's pipeline code generator, to PATH and exit", PROGRAM_GROUP},
    {"library", LIBRARY, "PATH", 0,
     "Run a shared library compiled from the C code of --generate (default: interpret the .spec)",
     PROGRAM_GROUP},
    {NULL, 0, NULL, 0, "Input:", INPUT},
    {"in", IN, "PATH", 0,
     "Read frames from a pcap or pcapng, optionally compressed with gzip, or - for standard input; may be "
     "repeated: the first is port 0, and frames of all ports are processed in timestamp order (required)",
     INPUT},
    {"descriptor", DESCRIPTOR, "N[:END]", 0,
     "Read the preceding --in from open file descriptor N; its path appears in messages and is checked. "
     "END: file descriptor from which one byte can be read after a complete capture",
     INPUT},
    {"pace", PACE, NULL, 0, "Keep the inter-arrival times of the captures (default: as fast as possible)",
     INPUT},
    {"burst", BURST, "N", 0, "Read N frames at once, 1 to 4096 (default: 32)", INPUT},
    {"parent", PARENT, "PID", 0, "Exit when the parent process exits; PID is its process ID", INPUT},
    {NULL, 0, NULL, 0, "Output (default: none):", OUTPUT},
    {"out", OUT, "PATH", 0, "Write frames that the program sends to PATH.pcap (ns) or PATH.pcapng", OUTPUT},
    {"out-interface", INTERFACE, "NAME", 0, "Send these frames on a network interface; needs CAP_NET_RAW",
     OUTPUT},
    {"stats", STATS, "PATH", 0, "Write the number of frames by outcome, as JSON", OUTPUT},
    {"frames", FRAMES, "PATH", 0,
     "Write a line per frame: time in ns, port, number on this port, outcome, reason, kind, lengths in "
     "bytes, hash",
     OUTPUT},
    {"dump-registers", REGISTERS, "PATH", 0, "Write all registers after the last frame, as JSON", OUTPUT},
    COMMON_OPTIONS,
    {NULL, 0, NULL, 0, NULL, 0},
};

static const char usage[] = "--spec PROGRAM.spec --in CAPTURE";
static const char documentation[] =
    "Run a P4 program, compiled by p4c-dpdk, on captures, with DPDK's software pipeline.";

const char *argp_program_version = PROGRAM " " ACAPELLA_VERSION;

static int add(const char *to[], unsigned *count, const char *value, const char *name, struct fault *fault) {
    if (*count == P4_PORTS) {
        return fail(fault, "%s: at most %d are allowed", name, P4_PORTS);
    }
    to[(*count)++] = value;
    return 0;
}

static int read_descriptor(struct options *options, const char *text, struct fault *fault) {
    char *rest = NULL;
    const unsigned long value = strtoul(text, &rest, 10);
    const bool has_end = *rest == ':' && rest[1] >= '0' && rest[1] <= '9';
    const unsigned long end = has_end ? strtoul(rest + 1, &rest, 10) : 0;
    if (!options->ins || *text < '0' || *text > '9' || *rest || value > INT_MAX || end > INT_MAX) {
        return fail(fault, "--descriptor %s: must be N or N:END, after the --in to which it belongs", text);
    }
    options->descriptor[options->ins - 1] = (int)value;
    options->end[options->ins - 1] = has_end ? (int)end : -1;
    return 0;
}

static int read_parent(struct options *options, const char *text, struct fault *fault) {
    char *rest = NULL;
    const unsigned long value = strtoul(text, &rest, 10);
    if (*text < '1' || *text > '9' || *rest || value > INT_MAX) {
        return fail(fault, "--parent %s: not a process ID", text);
    }
    options->parent = (pid_t)value;
    return 0;
}

static int read_burst(struct options *options, const char *text, struct fault *fault) {
    char *end = NULL;
    const unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || value == 0 || value > MAX_BURST) {
        return fail(fault, "--burst %s: must be a number from 1 to %d", text, MAX_BURST);
    }
    options->burst = (unsigned)value;
    return 0;
}

static int read_option(struct options *options, int code, const char *text, struct fault *fault) {
    switch (code) {
        case SPEC:
            options->spec = text;
            return 0;
        case IN:
            options->descriptor[options->ins % P4_PORTS] = -1;
            options->end[options->ins % P4_PORTS] = -1;
            return add(options->in, &options->ins, text, "--in", fault);
        case DESCRIPTOR:
            return read_descriptor(options, text, fault);
        case PARENT:
            return read_parent(options, text, fault);
        case OUT:
            options->out = text;
            return 0;
        case CONTROL:
            return add(options->control, &options->controls, text, "--control", fault);
        case STATS:
            options->statistics = text;
            return 0;
        case REGISTERS:
            options->registers = text;
            return 0;
        case FRAMES:
            options->frames = text;
            return 0;
        case INTERFACE:
            options->interface = text;
            return 0;
        case COMMANDS:
            options->commands = true;
            return 0;
        case LIBRARY:
            options->library = text;
            return 0;
        case GENERATE:
            options->generated = text;
            return 0;
        case PACE:
            options->pace = true;
            return 0;
        default:
            return read_burst(options, text, fault);
    }
}

/* Returns true if two paths are in the same directory. */
static bool same_directory(const char *a, const char *b) {
    const char *const paths[] = {a, b};
    struct stat status[2];
    for (unsigned i = 0; i < 2; ++i) {
        const char *end = strrchr(paths[i], '/');
        char *directory = end ? strndup(paths[i], (size_t)(end - paths[i]) + 1) : strdup(".");
        const bool exists = directory && stat(directory, &status[i]) == 0;
        free(directory);
        if (!exists) {
            return false;
        }
    }
    return status[0].st_dev == status[1].st_dev && status[0].st_ino == status[1].st_ino;
}

/* Returns true if two paths name the same regular file, or will do so once both are written. */
static bool same_file(const char *a, const char *b) {
    struct stat status_a, status_b;
    if (stat(a, &status_a) == 0 && !S_ISREG(status_a.st_mode)) {
        return false;
    }
    if (stat(a, &status_a) == 0 && stat(b, &status_b) == 0) {
        return status_a.st_dev == status_b.st_dev && status_a.st_ino == status_b.st_ino;
    }
    const char *name_a = strrchr(a, '/'), *name_b = strrchr(b, '/');
    return strcmp(name_a ? name_a + 1 : a, name_b ? name_b + 1 : b) == 0 && same_directory(a, b);
}

/* Returns true if an output, or its temporary file, would overwrite a file. */
static bool is_overwritten_by(const char *path, const char *output) {
    char part[PATH_MAX + 8];
    snprintf(part, sizeof part, "%s.part", output);
    return same_file(output, path) || same_file(part, path);
}

/* Fails if an output would overwrite a file that is read. */
static int check_output(const char *name, const char *path, const char *const read[], unsigned count,
                        struct fault *fault) {
    for (unsigned i = 0; path && i < count; ++i) {
        if (is_overwritten_by(read[i], path)) {
            return fail(fault, "%s %.200s: %.200s is also an input; use another file", name, path, read[i]);
        }
    }
    return 0;
}

static int check_outputs(const struct options *options, struct fault *fault) {
    const struct {
        const char *name, *path;
    } outputs[] = {{"--out", options->out},
                   {"--stats", options->statistics},
                   {"--frames", options->frames},
                   {"--dump-registers", options->registers},
                   {"--generate", options->generated}};
    const unsigned count = sizeof outputs / sizeof *outputs;
    for (unsigned i = 0; i < count; ++i) {
        const char *name = outputs[i].name, *path = outputs[i].path;
        if (check_output(name, path, options->in, options->ins, fault) != 0 ||
            check_output(name, path, options->control, options->controls, fault) != 0 ||
            check_output(name, path, &options->spec, 1, fault) != 0) {
            return -1;
        }
        for (unsigned j = 0; path && j < count; ++j) {
            if (j != i && outputs[j].path && is_overwritten_by(path, outputs[j].path)) {
                return fail(fault, "%s %.200s: is also the output of %s; use another file", name, path,
                            outputs[j].name);
            }
        }
    }
    return 0;
}

static int check(struct options *options, struct fault *fault) {
    unsigned standard_inputs = options->commands;
    for (unsigned i = 0; i < options->ins; ++i) {
        standard_inputs += strcmp(options->in[i], "-") == 0;
    }
    if (!options->spec) {
        return fail(fault, "--spec: missing; specify the program, such as p4/spec/preprocess.spec");
    }
    if (!options->ins && !options->generated) {
        return fail(fault, "--in: missing; specify a capture");
    }
    if (standard_inputs > 1) {
        return fail(fault, "standard input: used by --commands and --in -, or twice; use a file");
    }
    options->format = options->out ? format_of_path(options->out) : &pcap_format;
    if (!options->format) {
        return fail(fault, "--out %s: the name must end in .pcap or .pcapng", options->out);
    }
    return check_outputs(options, fault);
}

/* The parser function for argp. */
static error_t parse(int key, char *text, struct argp_state *state) {
    struct command_line *line = state->input;
    if (key >= OPTION_OWN && key <= GENERATE) {
        return read_option(line->options, key, text, line->fault) == 0 ? 0 : EINVAL;
    }
    if (key == ARGP_KEY_ARG) {
        fail(line->fault, "%s: not an option; see --help", text);
        return EINVAL;
    }
    return command_line_default(key, state);
}

int p4_options_read(struct options *options, int argc, char **argv, struct fault *fault) {
    *options = (struct options){.burst = 32};
    const struct argp argp = {known, parse, usage, documentation, NULL, NULL, NULL};
    const int status = command_line_read(&argp, argc, argv, options, NULL, fault);
    return status != 0 ? status : check(options, fault);
}
