#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/command_line.h"

#define MICROSECOND 1000ULL
#define MILLISECOND 1000000ULL
#define SECOND 1000000000ULL

enum {
    TX = OPTION_OWN,
    BRIDGE,
    QUEUES,
    IN_BAND,
    BURST,
    DEPTH,
    MAX_FRAME,
    PACKETS,
    DEPARTURES,
    PACE,
    LEAD,
    MEASURE_LEAD,
    RETRY,
    LATE,
    DROP_LATE,
    GUARD,
    WAKE,
    TAG,
    NODE,
    PRIORITY,
    SPIN,
};

/* Option groups, in the order of the help text. */
enum { PORTS = EAL_GROUP_PORTS, RECORDING, TIMES, TAGS, RESOURCES = EAL_GROUP_RESOURCES };

static const struct argp_option known[] = {
    {NULL, 0, NULL, 0, "Ports (--tx or --bridge is required):", PORTS},
    {"tx", TX, "PORT", 0,
     "Replay to the port with this device name; repeat it for several ports: packets of the i-th "
     "interface of a file are sent to the i-th port",
     PORTS},
    {"bridge", BRIDGE, "PORT,PORT", 0, "Forward packets between two ports, record them, and replay to both",
     PORTS},
    {"queues", QUEUES, "N", 0,
     "Use N Tx queues of each port, and N Rx queues of each port of a bridge, at most 16; a flow is sent to "
     "one queue (default: 1)",
     PORTS},
    {"in-band", IN_BAND, NULL, 0,
     "With --bridge, print control messages that are addressed to a port of the bridge (EtherType "
     "0x88B5) instead of forwarding them",
     PORTS},
    {"burst", BURST, "N", 0, "Set the maximum number of packets in a burst, at most 64 (default: 64)", PORTS},
    {"depth", DEPTH, "N", 0, "Set the number of descriptors of a queue (default: 1024)", PORTS},
    {"max-frame", MAX_FRAME, "BYTES", 0, "Set the maximum frame length (default: 2048)", PORTS},
    {NULL, 0, NULL, 0, "Recording:", RECORDING},
    {"packets", PACKETS, "N", 0, "Set the maximum number of packets in the recording (default: 65536)",
     RECORDING},
    {"departures", DEPARTURES, "N", 0,
     "Set the maximum number of packets of a run, all loops together (default: 1M)", RECORDING},
    {NULL, 0, NULL, 0, "Times, in nanoseconds:", TIMES},
    {"pace", PACE, "bursts|single", 0,
     "Send each burst at the time of its first packet, or packets one by one (default: bursts)", TIMES},
    {"lead-ns", LEAD, "NS", 0,
     "Pass a packet to the driver this long before it is due; 0 if unknown (default: 0)", TIMES},
    {"measure-lead", MEASURE_LEAD, "tx|PORT", 0,
     "Measure the lead time with probes before the start: from the driver's transmit timestamps (tx), or at "
     "a port that receives what the Tx port sends; repeat it for several ports (a single tx applies to all "
     "ports)",
     TIMES},
    {"retry-ns", RETRY, "NS", 0,
     "Retry for this long if the driver does not accept a packet, then count it as ring_full (default: "
     "100000)",
     TIMES},
    {"late-ns", LATE, "NS", 0, "Count packets as late if they are more than this late (default: 1000)",
     TIMES},
    {"drop-late-ns", DROP_LATE, "NS", 0,
     "Do not send packets that are more than this late; 0: send them all (default: 0)", TIMES},
    {"guard-ns", GUARD, "NS", 0,
     "During a run, pause forwarding this long before each departure (default: 50000)", TIMES},
    {"wake-ns", WAKE, "NS", 0,
     "During a run without --bridge, sleep until this long before each departure; 0: poll all the time "
     "(default: 0)",
     TIMES},
    {NULL, 0, NULL, 0, "Tags:", TAGS},
    {"tag", TAG, "none|choir|fixed", 0,
     "Append CHOIR's 16-byte trailer to each packet; fixed: also correct lengths and checksums (default: "
     "none)",
     TAGS},
    {"node", NODE, "N", 0, "Set the node number in the trailer (default: 0)", TAGS},
    {NULL, 0, NULL, 0, "CPU and memory:", RESOURCES},
    {"priority", PRIORITY, "N", 0,
     "Set the real-time priority of the polling thread during a run (SCHED_FIFO), for runs of less than a "
     "second; 0 if none (default: 0)",
     RESOURCES},
    {"spin", SPIN, NULL, 0, "With --bridge, poll without sleeping between runs (default: sleep)", RESOURCES},
    COMMON_OPTIONS,
    {NULL, 0, NULL, 0, NULL, 0},
};

static const char usage[] = "--tx PORT [-- EAL_ARGUMENT...]";
static const char documentation[] =
    "Replay a capture, or packets recorded as a transparent bridge, at absolute times. Commands are read "
    "from standard input, one per line; results are printed as one JSON object per line."
    "\v"
    "Commands: record FROM_NS UNTIL_NS, rolling SECONDS, load FILE, stop, clear, run AT_NS LOOPS SPEED_PPM, "
    "status, save FILE, departures FILE, answer PORT HEX, quit. The end of standard input, SIGTERM, SIGINT "
    "and SIGHUP end the program.";

const char *argp_program_version = PROGRAM " " ACAPELLA_VERSION;

static int add_bridge(struct options *options, char *text, struct fault *fault) {
    char *comma = strchr(text, ',');
    if (!comma || comma == text || !comma[1] || strchr(comma + 1, ',')) {
        return fail(fault, "--bridge %s: not two ports, as in net_af_packet0,net_af_packet1", text);
    }
    if (options->ports) {
        return fail(fault, "--bridge %s: use --bridge once, or --tx", text);
    }
    *comma = 0;
    options->bridge = true;
    options->port[0] = text;
    options->port[1] = comma + 1;
    options->ports = 2;
    return 0;
}

static int add_port(struct options *options, char *text, struct fault *fault) {
    if (options->bridge || options->ports == OPTIONS_PORTS) {
        return fail(fault, "--tx %s: use at most %d, without --bridge", text, OPTIONS_PORTS);
    }
    options->port[options->ports++] = text;
    return 0;
}

static int add_lead_source(struct options *options, const char *text, struct fault *fault) {
    if (options->lead_sources == OPTIONS_PORTS) {
        return fail(fault, "--measure-lead %s: use it at most %d times", text, OPTIONS_PORTS);
    }
    options->lead_from[options->lead_sources++] = strcmp(text, "tx") == 0 ? NULL : text;
    return 0;
}

static int read_number(struct options *options, int code, const char *text, struct fault *fault) {
    switch (code) {
        case QUEUES:
            return option_number(&options->queues, text, "queues", 1, QUEUES_MAX, fault);
        case BURST:
            return option_number(&options->burst, text, "burst", 1, BURST_MAX, fault);
        case DEPTH:
            return option_number(&options->depth, text, "depth", 64, 32768, fault);
        case MAX_FRAME:
            return option_number(&options->max_frame, text, "max-frame", 64, 65000, fault);
        case PACKETS:
            return option_size(&options->packets, text, "packets", 1, 1ULL << 30, fault);
        case DEPARTURES:
            return option_size(&options->departures, text, "departures", 1, 1ULL << 32, fault);
        case LEAD:
            return option_size(&options->lead_ns, text, "lead-ns", 0, 10 * MILLISECOND, fault);
        case RETRY:
            return option_size(&options->retry_ns, text, "retry-ns", 0, SECOND, fault);
        case LATE:
            return option_size(&options->late_ns, text, "late-ns", 0, SECOND, fault);
        case DROP_LATE:
            return option_size(&options->drop_late_ns, text, "drop-late-ns", 0, 3600 * SECOND, fault);
        case GUARD:
            return option_size(&options->guard_ns, text, "guard-ns", 0, SECOND, fault);
        case WAKE:
            return option_size(&options->wake_ns, text, "wake-ns", 0, SECOND, fault);
        case PRIORITY:
            return option_number(&options->priority, text, "priority", 0, 99, fault);
        default:
            return option_number(&options->node, text, "node", 0, UINT16_MAX, fault);
    }
}

static int read_option(struct options *options, int code, char *text, struct fault *fault) {
    static const char *const paces[] = {"bursts", "single", NULL};
    static const char *const tags[] = {"none", "choir", "fixed", NULL};
    int at = 0;
    switch (code) {
        case TX:
            return add_port(options, text, fault);
        case BRIDGE:
            return add_bridge(options, text, fault);
        case MEASURE_LEAD:
            return add_lead_source(options, text, fault);
        case PACE:
            at = option_choice(text, "pace", paces, fault);
            options->pacing = at == 1 ? PACING_SINGLE : PACING_BURSTS;
            return at < 0 ? -1 : 0;
        case TAG:
            at = option_choice(text, "tag", tags, fault);
            options->tag = at < 0 ? TAG_NONE : (enum tag)at;
            return at < 0 ? -1 : 0;
        case IN_BAND:
            options->in_band = true;
            return 0;
        case SPIN:
            options->spin = true;
            return 0;
        default:
            return read_number(options, code, text, fault);
    }
}

/* The parser function for argp. */
static error_t parse(int key, char *text, struct argp_state *state) {
    struct command_line *line = state->input;
    struct options *options = line->options;
    if (key >= OPTION_OWN && key <= SPIN) {
        return read_option(options, key, text, line->fault) == 0 ? 0 : EINVAL;
    }
    return command_line_default(key, state);
}

/* Lets a single `--measure-lead tx` apply to all ports. */
static void expand_lead_sources(struct options *options) {
    if (options->lead_sources == 1 && !options->lead_from[0]) {
        options->lead_sources = options->ports; /* `lead_from` of the others is NULL, too */
    }
}

static int check(const struct options *options, struct fault *fault) {
    if (options->ports == 0) {
        return fail(fault, "no ports: use --tx or --bridge; see --help");
    }
    if (options->eal.vdevs + options->eal.pcis == 0) {
        return fail(fault, "no devices: use --vdev or --pci; see --help");
    }
    if (options->in_band && !options->bridge) {
        return fail(fault, "--in-band: applies to --bridge only");
    }
    if (options->lead_ns && options->pacing != PACING_SINGLE) {
        return fail(fault, "--lead-ns: applies to --pace single only");
    }
    if (options->lead_sources && options->bridge) {
        return fail(fault, "--measure-lead: applies to --tx, not to --bridge");
    }
    if (options->lead_sources && (options->lead_ns || options->pacing != PACING_SINGLE)) {
        return fail(fault, "--measure-lead: applies to --pace single without --lead-ns");
    }
    if (options->lead_sources && options->lead_sources != options->ports) {
        return fail(fault, "--measure-lead: use it once for each of the %u ports, or tx once",
                    options->ports);
    }
    return 0;
}

int options_read(struct options *options, int argc, char **argv, struct fault *fault) {
    *options = (struct options){
        .queues = 1,
        .burst = BURST_MAX,
        .depth = 1024,
        .max_frame = 2048,
        .packets = 65536,
        .departures = 1U << 20,
        .retry_ns = 100 * MICROSECOND,
        .late_ns = MICROSECOND,
        .guard_ns = 50 * MICROSECOND,
    };
    const struct argp argp = {known, parse, usage, documentation, eal_options, NULL, NULL};
    const int status = command_line_read(&argp, argc, argv, options, &options->eal, fault);
    if (status != 0) {
        return status;
    }
    expand_lead_sources(options);
    return check(options, fault);
}
