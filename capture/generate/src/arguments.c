#include "arguments.h"

#include <errno.h>

#include "common/command_line.h"
#include "engine/ports.h"

#define BURST_DEFAULT 32
#define DEPTH_DEFAULT 1024
#define RETRY_NS_DEFAULT 100000
#define SECOND 1000000000ULL
#define PRIORITY_MAX 99

enum { MODEL = OPTION_OWN, TRACE, OUTPUT, TX, START, BURST, DEPTH, MAX_FRAME, RETRY, PRIORITY };

static const struct argp_option known[] = {
    {NULL, 0, NULL, 0, "Traffic:", EAL_GROUP_PORTS},
    {"model", MODEL, "FILE", 0, "Generate the packets of this compiled model", EAL_GROUP_PORTS},
    {"trace", TRACE, "FILE", 0,
     "Write time and length of each frame of a capture to standard output, as two int64_t, and exit",
     EAL_GROUP_PORTS},
    {"output", OUTPUT, "FILE", 0, "Write the packets to a pcap with timestamps in ns", EAL_GROUP_PORTS},
    {"tx", TX, "PORT", 0, "Send the packets to the port with this device name", EAL_GROUP_PORTS},
    {"start-ns", START, "NS", 0,
     "Set the start of the traffic, CLOCK_REALTIME; with --tx, 0 is as soon as possible (default: 0)",
     EAL_GROUP_PORTS},
    {"burst", BURST, "N", 0, "Set the maximum number of packets in a burst, at most 64 (default: 32)",
     EAL_GROUP_PORTS},
    {"depth", DEPTH, "N", 0, "Set the number of descriptors of a queue (default: 1024)", EAL_GROUP_PORTS},
    {"max-frame", MAX_FRAME, "BYTES", 0,
     "Set the size of packet buffers, if the frames of the port's ring are longer than the longest packet "
     "(default: the longest packet, at least 2048)",
     EAL_GROUP_PORTS},
    {"retry-ns", RETRY, "NS", 0,
     "Retry for this long if the driver does not accept a packet, then count it as dropped (default: 100000)",
     EAL_GROUP_PORTS},
    {"priority", PRIORITY, "N", 0,
     "Set the real-time priority of the polling thread (default: normal scheduling)", EAL_GROUP_RESOURCES},
    COMMON_OPTIONS,
    {NULL, 0, NULL, 0, NULL, 0},
};

static error_t parse(int key, char *text, struct argp_state *state) {
    struct command_line *line = state->input;
    struct arguments *arguments = line->options;
    struct fault *fault = line->fault;
    int status = 0;
    switch (key) {
        case MODEL:
            arguments->model = text;
            break;
        case TRACE:
            arguments->trace = text;
            break;
        case OUTPUT:
            arguments->output = text;
            break;
        case TX:
            arguments->port = text;
            break;
        case START:
            status = option_size(&arguments->start_ns, text, "start-ns", 0, INT64_MAX / 2, fault);
            break;
        case BURST:
            status = option_number(&arguments->burst, text, "burst", 1, BURST_MAX, fault);
            break;
        case DEPTH:
            status = option_number(&arguments->depth, text, "depth", 16, 1U << 15, fault);
            break;
        case MAX_FRAME:
            status = option_number(&arguments->max_frame, text, "max-frame", 64, 65000, fault);
            break;
        case RETRY:
            status = option_size(&arguments->retry_ns, text, "retry-ns", 0, 10 * SECOND, fault);
            break;
        case PRIORITY:
            status = option_number(&arguments->priority, text, "priority", 0, PRIORITY_MAX, fault);
            break;
        default:
            return command_line_default(key, state);
    }
    return status == 0 ? 0 : EINVAL;
}

const char *argp_program_version = PROGRAM " " ACAPELLA_VERSION;

int arguments_read(struct arguments *arguments, int argc, char **argv, struct fault *fault) {
    static const struct argp parser = {
        known,       parse, NULL, "Generate the packets of a compiled model, which acapella generate writes.",
        eal_options, NULL,  NULL};
    *arguments =
        (struct arguments){.burst = BURST_DEFAULT, .depth = DEPTH_DEFAULT, .retry_ns = RETRY_NS_DEFAULT};
    const int status = command_line_read(&parser, argc, argv, arguments, &arguments->eal, fault);
    if (status != 0) {
        return status;
    }
    if (!arguments->model == !arguments->trace) {
        return fail(fault, "exactly one of --model and --trace is required");
    }
    if (arguments->trace) {
        return 0;
    }
    return !arguments->output == !arguments->port
               ? fail(fault, "exactly one of --output and --tx is required")
               : 0;
}
