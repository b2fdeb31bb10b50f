#include <errno.h>

#include "common/command_line.h"

/* Keys after those of the programs. */
enum { VDEV = OPTION_OWN + 256, PCI, HUGE, NO_HUGE, MEMORY_MB, CPUS };

static const struct argp_option known[] = {
    {"vdev", VDEV, "DRIVER,ARGUMENTS", 0, "Create a virtual device, as EAL's --vdev does", EAL_GROUP_PORTS},
    {"pci", PCI, "ADDRESS", 0, "Use a NIC that is bound to a DPDK driver", EAL_GROUP_PORTS},
    {"huge", HUGE, NULL, 0, "Use huge pages (default: normal pages)", EAL_GROUP_RESOURCES},
    {"no-huge", NO_HUGE, NULL, 0, "Use normal pages (the default)", EAL_GROUP_RESOURCES},
    {"memory-mb", MEMORY_MB, "N", 0, "Set the memory of EAL without --huge, in MiB (default: as needed)",
     EAL_GROUP_RESOURCES},
    {"cpus", CPUS, "LIST", 0,
     "Set the CPUs of the polling threads, as in 1,2 (default: all that the process may use)",
     EAL_GROUP_RESOURCES},
    {NULL, 0, NULL, 0, NULL, 0},
};

static int add_device(const char **list, unsigned *count, const char *text, const char *name,
                      struct fault *fault) {
    if (*count == EAL_DEVICES) {
        return fail(fault, "--%s %s: more than %d; use fewer", name, text, EAL_DEVICES);
    }
    list[(*count)++] = text;
    return 0;
}

static int add_arguments(struct eal_settings *eal, const char *text, struct argp_state *state,
                         struct fault *fault) {
    if (!state->quoted) {
        return fail(fault, "%s: not an option; arguments of EAL come after --", text);
    }
    eal->more = &state->argv[state->next - 1];
    eal->more_count = state->argc - state->next + 1;
    state->next = state->argc;
    return 0;
}

/* The parser function for argp. */
static error_t parse(int key, char *text, struct argp_state *state) {
    struct command_line *line = state->input;
    int status = 0;
    switch (key) {
        case VDEV:
            status = add_device(line->eal->vdev, &line->eal->vdevs, text, "vdev", line->fault);
            break;
        case PCI:
            status = add_device(line->eal->pci, &line->eal->pcis, text, "pci", line->fault);
            break;
        case HUGE:
        case NO_HUGE:
            line->eal->huge = key == HUGE;
            break;
        case MEMORY_MB:
            status = option_number(&line->eal->memory_mb, text, "memory-mb", 16, 1U << 20, line->fault);
            break;
        case CPUS:
            line->eal->cpus = text;
            break;
        case ARGP_KEY_ARG:
            status = add_arguments(line->eal, text, state, line->fault);
            break;
        default:
            return ARGP_ERR_UNKNOWN;
    }
    return status == 0 ? 0 : EINVAL;
}

static const struct argp eal_parser = {known, parse, NULL, NULL, NULL, NULL, NULL};
const struct argp_child eal_options[] = {{&eal_parser, 0, NULL, 0}, {NULL, 0, NULL, 0}};
