#include "command/options.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    SPEC = 256,
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
    VERSION,
    HELP
};

#define BURST_MOST 4096

static const struct option names[] = {
    {"spec", required_argument, NULL, SPEC},
    {"in", required_argument, NULL, IN},
    {"descriptor", required_argument, NULL, DESCRIPTOR},
    {"parent", required_argument, NULL, PARENT},
    {"out", required_argument, NULL, OUT},
    {"control", required_argument, NULL, CONTROL},
    {"stats", required_argument, NULL, STATS},
    {"dump-registers", required_argument, NULL, REGISTERS},
    {"frames", required_argument, NULL, FRAMES},
    {"out-interface", required_argument, NULL, INTERFACE},
    {"commands", no_argument, NULL, COMMANDS},
    {"pace", no_argument, NULL, PACE},
    {"burst", required_argument, NULL, BURST},
    {"version", no_argument, NULL, VERSION},
    {"library", required_argument, NULL, LIBRARY},
    {"generate", required_argument, NULL, GENERATE},
    {"help", no_argument, NULL, HELP},
    {NULL, 0, NULL, 0},
};

static const char usage[] =
    "usage: " PROGRAM
    " --spec PROGRAM.spec --in CAPTURE [--in CAPTURE ...] [OPTIONS]\n"
    "Runs a P4 program, compiled by p4c-dpdk, over captures, on DPDK's software pipeline.\n"
    "  --spec PATH            the program\n"
    "  --in PATH              pcap or pcapng, also with gzip, - for standard input; the first is port 0, the "
    "next 1, ...:\n"
    "                         their frames enter in the order of their times\n"
    "  --descriptor N[:END]   read the last --in from this open descriptor; its PATH is for messages and "
    "checks.\n"
    "                         END is another one: a byte has to come from there after the last of the "
    "capture\n"
    "  --parent PID           end as soon as this process ends, which has to be the parent\n"
    "  --out PATH             what the program sends: PATH.pcap (ns) or PATH.pcapng\n"
    "  --out-interface NAME   the same, as frames on an interface (needs CAP_NET_RAW)\n"
    "  --control PATH         tables, registers, names of drop reasons, epochs; may be given several times\n"
    "  --commands             the same statements on standard input while it runs, each answered by a line\n"
    "  --stats PATH           what became of every frame, JSON\n"
    "  --frames PATH          what became of each frame, a line each: time, port, its number there, outcome, "
    "reason,\n"
    "                         lengths, hash\n"
    "  --dump-registers PATH  all registers at the end, JSON\n"
    "  --pace                 frames enter at the distances in time that they have in the captures\n"
    "  --burst N              frames read at once (32)\n"
    "  --generate PATH        write the program's C code, by DPDK's pipeline code generator, and exit\n"
    "  --library PATH         run this shared library, compiled from that C code, instead of the "
    "interpreter\n";

static bool ends_in(const char *text, const char *end) {
    const size_t size = strlen(text), least = strlen(end);
    return size > least && strcmp(text + size - least, end) == 0;
}

static int add(const char *to[], unsigned *count, const char *value, const char *name, struct fault *fault) {
    if (*count == P4_PORTS) {
        return fail(fault, "%s: at most %d of them", name, P4_PORTS);
    }
    to[(*count)++] = value;
    return 0;
}

static int read_descriptor(struct options *options, struct fault *fault) {
    char *rest = NULL;
    const unsigned long value = strtoul(optarg, &rest, 10);
    const bool ends = *rest == ':' && rest[1] >= '0' && rest[1] <= '9';
    const unsigned long end = ends ? strtoul(rest + 1, &rest, 10) : 0;
    if (!options->ins || *optarg < '0' || *optarg > '9' || *rest || value > INT_MAX || end > INT_MAX) {
        return fail(fault, "--descriptor %s: N or N:END, after the --in that it belongs to", optarg);
    }
    options->descriptor[options->ins - 1] = (int)value;
    options->end[options->ins - 1] = ends ? (int)end : -1;
    return 0;
}

static int read_parent(struct options *options, struct fault *fault) {
    char *rest = NULL;
    const unsigned long value = strtoul(optarg, &rest, 10);
    if (*optarg < '1' || *optarg > '9' || *rest || value > INT_MAX) {
        return fail(fault, "--parent %s: not the id of a process", optarg);
    }
    options->parent = (pid_t)value;
    return 0;
}

static int read_burst(struct options *options, struct fault *fault) {
    char *end = NULL;
    const unsigned long value = strtoul(optarg, &end, 10);
    if (*optarg < '0' || *optarg > '9' || *end || value == 0 || value > BURST_MOST) {
        return fail(fault, "--burst %s: a number from 1 to %d", optarg, BURST_MOST);
    }
    options->burst = (unsigned)value;
    return 0;
}

static int read_one(struct options *options, int code, struct fault *fault) {
    switch (code) {
        case SPEC:
            options->spec = optarg;
            return 0;
        case IN:
            options->descriptor[options->ins % P4_PORTS] = -1;
            options->end[options->ins % P4_PORTS] = -1;
            return add(options->in, &options->ins, optarg, "--in", fault);
        case DESCRIPTOR:
            return read_descriptor(options, fault);
        case PARENT:
            return read_parent(options, fault);
        case OUT:
            options->out = optarg;
            return 0;
        case CONTROL:
            return add(options->control, &options->controls, optarg, "--control", fault);
        case STATS:
            options->statistics = optarg;
            return 0;
        case REGISTERS:
            options->registers = optarg;
            return 0;
        case FRAMES:
            options->frames = optarg;
            return 0;
        case INTERFACE:
            options->interface = optarg;
            return 0;
        case COMMANDS:
            options->commands = true;
            return 0;
        case LIBRARY:
            options->library = optarg;
            return 0;
        case GENERATE:
            options->generated = optarg;
            return 0;
        case PACE:
            options->pace = true;
            return 0;
        default:
            return read_burst(options, fault);
    }
}

/* Whether two paths lead to one directory. */
static bool one_directory(const char *a, const char *b) {
    const char *const paths[] = {a, b};
    struct stat found[2];
    for (unsigned i = 0; i < 2; ++i) {
        const char *end = strrchr(paths[i], '/');
        char *directory = end ? strndup(paths[i], (size_t)(end - paths[i]) + 1) : strdup(".");
        const bool there = directory && stat(directory, &found[i]) == 0;
        free(directory);
        if (!there) {
            return false;
        }
    }
    return found[0].st_dev == found[1].st_dev && found[0].st_ino == found[1].st_ino;
}

/* Whether two paths lead to one regular file, or would once one is written. */
static bool one_file(const char *a, const char *b) {
    struct stat one, other;
    if (stat(a, &one) == 0 && !S_ISREG(one.st_mode)) {
        return false;
    }
    if (stat(a, &one) == 0 && stat(b, &other) == 0) {
        return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
    }
    const char *name_a = strrchr(a, '/'), *name_b = strrchr(b, '/');
    return strcmp(name_a ? name_a + 1 : a, name_b ? name_b + 1 : b) == 0 && one_directory(a, b);
}

/* Whether an output, or what it is called until it is whole, takes the place of a file. */
static bool written_by(const char *path, const char *output) {
    char part[PATH_MAX + 8];
    snprintf(part, sizeof part, "%s.part", output);
    return one_file(output, path) || one_file(part, path);
}

/* Whether an output would take the place of a file that is read. */
static int check_output(const char *name, const char *path, const char *const read[], unsigned count,
                        struct fault *fault) {
    for (unsigned i = 0; path && i < count; ++i) {
        if (written_by(read[i], path)) {
            return fail(fault, "%s %.200s: %.200s is read, too; name another file", name, path, read[i]);
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
            if (j != i && outputs[j].path && written_by(path, outputs[j].path)) {
                return fail(fault, "%s %.200s: %s writes it, too; name another file", name, path,
                            outputs[j].name);
            }
        }
    }
    return 0;
}

static int check(struct options *options, struct fault *fault) {
    unsigned standard = options->commands;
    for (unsigned i = 0; i < options->ins; ++i) {
        standard += strcmp(options->in[i], "-") == 0;
    }
    if (!options->spec) {
        return fail(fault, "--spec: missing; name the program, as in p4/spec/preprocess.spec");
    }
    if (!options->ins && !options->generated) {
        return fail(fault, "--in: missing; name a capture");
    }
    if (standard > 1) {
        return fail(fault, "standard input: wanted by --commands and --in -, or twice; name a file");
    }
    options->format = options->out && ends_in(options->out, ".pcapng") ? &pcapng_format : &pcap_format;
    if (options->out && !ends_in(options->out, ".pcap") && !ends_in(options->out, ".pcapng")) {
        return fail(fault, "--out %s: the name has to end in .pcap or .pcapng", options->out);
    }
    return check_outputs(options, fault);
}

int p4_options_read(struct options *options, int argc, char **argv, struct fault *fault) {
    *options = (struct options){.burst = 32};
    opterr = 0;
    for (int code; (code = getopt_long(argc, argv, "+", names, NULL)) != -1;) {
        if (code == HELP || code == VERSION) {
            fputs(code == HELP ? usage : PROGRAM " " ACAPELLA_VERSION "\n", stdout);
            return 1;
        }
        if (code == '?') {
            return fail(fault, "%s: unknown, or without its value; see --help", argv[optind - 1]);
        }
        if (read_one(options, code, fault) != 0) {
            return -1;
        }
    }
    return optind < argc ? fail(fault, "%s: not an option; see --help", argv[optind]) : check(options, fault);
}
