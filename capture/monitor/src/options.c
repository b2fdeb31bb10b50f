#include "options.h"

#include <errno.h>
#include <stdlib.h>

enum {
    READ = OPTION_OWN,
    FLOWS,
    RESULT,
    PACKETS,
    WRITE,
    SNAPLEN,
    MAX_FLOWS,
    WINDOW,
    PATTERN,
    RULE,
    DRIFT,
    DEPTH,
    MAX_FRAME,
    CLOCK,
    DURATION,
    IDLE,
    EVERY,
    LIVE_FLOWS,
    LAST = LIVE_FLOWS
};

enum { PORT = EAL_GROUP_PORTS, SELECTION, OUTPUT, END };

static const struct argp_option known[] = {
    {NULL, 0, NULL, 0, "Ports (--read, or any of --vdev and --pci; each is a port):", PORT},
    {"read", READ, "FILE", 0, "Read a capture, whose timestamps are the arrival times; pcap or pcapng", PORT},
    {"depth", DEPTH, "N", 0, "Set the number of descriptors of a port (default: 4096)", PORT},
    {"max-frame", MAX_FRAME, "BYTES", 0, "Set the maximum length of packets (default: 2048)", PORT},
    {"clock", CLOCK, "auto|hardware|tsc", 0,
     "Set the source of timestamps: the device, or the TSC of the CPU (default: auto, the device if it has "
     "timestamps)",
     PORT},
    {NULL, 0, NULL, 0, "Packets:", SELECTION},
    {"flows", FLOWS, "FILE", 0, "Read the list of expected flows, as written by acapella (default: none)",
     SELECTION},
    {"max-flows", MAX_FLOWS, "N", 0, "Without --flows: count flows with indexes below N (default: 65536)",
     SELECTION},
    {"window", WINDOW, "N", 0,
     "Recognize duplicates and reordered packets up to N packets back, a power of 2 (default: 1024)",
     SELECTION},
    {"pattern", PATTERN, "NAME", 0,
     "Without --flows: expect zeros, ones, aa55, counter or prbs31 after the stamp (default: not checked)",
     SELECTION},
    {"rule", RULE, "RULE", 0,
     "Count only packets of this 5-tuple, PROTOCOL,SRC,SRC_PORT,DST,DST_PORT, such as "
     "udp,10.0.0.0/8,*,*,5000-5999; repeat it for several",
     SELECTION},
    {"drift", DRIFT, "PPT,NS", 0,
     "Correct latencies for a clock drift of PPT * 10^-12 since time NS, in ns (default: no correction)",
     SELECTION},
    {NULL, 0, NULL, 0, "Output:", OUTPUT},
    {"result", RESULT, "FILE", 0, "Write the counts to FILE (required)", OUTPUT},
    {"packets", PACKETS, "PATH", 0,
     "Write a record of each packet with its 128-bit hash to PATH-0, PATH-1, ... for each port (default: "
     "none)",
     OUTPUT},
    {"write", WRITE, "PATH.pcapng", 0,
     "Write truncated packets, with the 128-bit hash of each whole packet (default: none)", OUTPUT},
    {"snaplen", SNAPLEN, "BYTES", 0,
     "With --write: truncate packets to this length; 0: keep them whole (default: 64)", OUTPUT},
    {"every", EVERY, "SECONDS", 0, "Print the counts of ports as JSON every SECONDS (default: never)",
     OUTPUT},
    {"live-flows", LIVE_FLOWS, "N", 0, "With --every: also print the counts of N flows (default: 0)", OUTPUT},
    {NULL, 0, NULL, 0, "End of reception (default: SIGTERM, SIGINT or SIGHUP):", END},
    {"duration", DURATION, "SECONDS", 0, "Stop after SECONDS", END},
    {"stop-when-idle", IDLE, "SECONDS", 0, "Stop after SECONDS without a packet at any port", END},
    COMMON_OPTIONS,
    {NULL, 0, NULL, 0, NULL, 0},
};

static const char usage[] = "--result FILE [-- EAL_ARGUMENT...]";
static const char documentation[] =
    "Measure latency, jitter, loss, reordering, duplicates and bit errors of the packets that "
    "acapella-dpdk-generate sent."
    "\v"
    "`acapella monitor` runs this program and writes tables. SIGTERM, SIGINT and SIGHUP end it; packets "
    "received from ports until then are counted. If a file was not read to its end, this is an error.";

const char *argp_program_version = PROGRAM " " ACAPELLA_VERSION;

static int read_file(struct options *options, const char *text, struct fault *fault) {
    if (options->files == PORTS_MAX) {
        return fail(fault, "--read %s: more than %d files; use fewer", text, PORTS_MAX);
    }
    options->read[options->files++] = text;
    return 0;
}

static int read_drift(struct correction *correction, const char *text, struct fault *fault) {
    char *end = NULL;
    errno = 0;
    correction->rate_ppt = strtoll(text, &end, 10);
    const bool comma = end != text && *end == ',';
    const char *from = comma ? end + 1 : text;
    correction->from_ns = comma ? strtoll(from, &end, 10) : 0;
    return comma && end != from && !*end && !errno ? 0 : fail(fault, "--drift %s: not PPT,NS", text);
}

static int read_seconds(double *to, const char *text, const char *name, struct fault *fault) {
    char *end = NULL;
    *to = strtod(text, &end);
    return end != text && !*end && *to > 0 && *to < 1e9
               ? 0
               : fail(fault, "--%s %s: not a number of seconds above 0; see --help", name, text);
}

/* Reads options for ports, for the end of reception, and for the output during reception. */
static int read_port_option(struct options *options, int code, const char *text, struct fault *fault) {
    static const char *const clocks[] = {"auto", "hardware", "tsc", NULL};
    int choice;
    switch (code) {
        case DEPTH:
            return option_number(&options->depth, text, "depth", 64, 65535, fault);
        case MAX_FRAME:
            return option_number(&options->max_frame, text, "max-frame", 64, 65000, fault);
        case CLOCK:
            choice = option_choice(text, "clock", clocks, fault);
            options->clock = choice < 0 ? CLOCK_AUTO : (enum clock_choice)choice;
            return choice < 0 ? -1 : 0;
        case DURATION:
            return read_seconds(&options->duration_s, text, "duration", fault);
        case IDLE:
            return read_seconds(&options->idle_s, text, "stop-when-idle", fault);
        case EVERY:
            return read_seconds(&options->every_s, text, "every", fault);
        default:
            return option_number(&options->live_flows, text, "live-flows", 0, 4096, fault);
    }
}

static int read_option(struct options *options, int code, const char *text, struct fault *fault) {
    static const char *const patterns[] = {"zeros", "ones", "aa55", "counter", "prbs31", NULL};
    int pattern;
    switch (code) {
        case READ:
            return read_file(options, text, fault);
        case FLOWS:
            options->flows = text;
            return 0;
        case RESULT:
            options->result = text;
            return 0;
        case PACKETS:
            options->packets = text;
            return 0;
        case WRITE:
            options->write = text;
            return 0;
        case SNAPLEN:
            return option_number(&options->snaplen, text, "snaplen", 0, 262144, fault);
        case MAX_FLOWS:
            return option_number(&options->max_flows, text, "max-flows", 1, 1U << 24, fault);
        case WINDOW:
            return option_number(&options->window, text, "window", 64, 1U << 20, fault);
        case PATTERN:
            pattern = option_choice(text, "pattern", patterns, fault);
            options->monitor.checks_pattern = pattern >= 0;
            options->monitor.pattern = pattern < 0 ? PATTERN_ZEROS : (enum pattern)pattern;
            return pattern < 0 ? -1 : 0;
        case RULE:
            return tuple_add(&options->monitor.filter, text, fault);
        case DRIFT:
            return read_drift(&options->monitor.correction, text, fault);
        default:
            return read_port_option(options, code, text, fault);
    }
}

static int check(const struct options *options, struct fault *fault) {
    const unsigned devices = options->eal.vdevs + options->eal.pcis;
    if ((options->files > 0) == (devices > 0)) {
        return fail(fault, "%s: use either --read, or any of --vdev and --pci; see --help",
                    devices > 0 ? "several kinds of ports" : "no port");
    }
    if (devices > PORTS_MAX) {
        return fail(fault, "--vdev, --pci: more than %d ports; use fewer", PORTS_MAX);
    }
    if (!options->result) {
        return fail(fault, "--result: missing; see --help");
    }
    if (options->window & (options->window - 1)) {
        return fail(fault, "--window %u: not a power of 2; use 1024, for example", options->window);
    }
    if (options->flows && options->monitor.checks_pattern) {
        return fail(fault, "--pattern: the file of --flows contains the patterns; remove --pattern");
    }
    return 0;
}

/* The parser function for argp. */
static error_t parse(int key, char *text, struct argp_state *state) {
    struct command_line *line = state->input;
    if (key >= OPTION_OWN && key <= LAST) {
        return read_option(line->options, key, text, line->fault) == 0 ? 0 : EINVAL;
    }
    return command_line_default(key, state);
}

int options_read(struct options *options, int argc, char **argv, struct fault *fault) {
    *options =
        (struct options){.max_flows = 65536, .window = 1024, .snaplen = 64, .depth = 4096, .max_frame = 2048};
    const struct argp argp = {known, parse, usage, documentation, eal_options, NULL, NULL};
    const int status = command_line_read(&argp, argc, argv, options, &options->eal, fault);
    return status != 0 ? status : check(options, fault);
}
