#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/command_line.h"

#define JUMBO_FRAME 9216
#define XDP_FRAME 3456 /* AF_XDP: frame and headroom fit into a page */

enum {
    WRITE = OPTION_OWN,
    ACCOUNTS,
    FORMAT,
    WRITER,
    QUEUES,
    DEPTH,
    BURST,
    SNAPLEN,
    MAX_FRAME,
    FILTER,
    P4,
    P4_CONTROL,
    SAMPLE,
    SAMPLE_BY,
    HASH,
    NO_HASH,
    CLOCK,
    ROTATE_BYTES,
    ROTATE_SECONDS,
    PREALLOCATE,
    BUFFERS,
    BUFFER_BYTES,
    FLUSH_SECONDS,
    WHEN_FULL,
    FRAMES,
    DURATION,
    IDLE,
    SPIN,
    GENERATE,
    RATE,
};

/* Option groups, in the order of the help text. */
enum { PORT = EAL_GROUP_PORTS, SELECTION, OUTPUT, DISK, END, RESOURCES = EAL_GROUP_RESOURCES };

static const struct argp_option known[] = {
    {NULL, 0, NULL, 0,
     "Port (one of --vdev, --pci and --generate is required; the first --vdev is captured):", PORT},
    {"generate", GENERATE, "BYTES", 0,
     "Generate frames of this length in a thread of the program, to measure what a disk can write", PORT},
    {"rate", RATE, "N", 0, "Generate N frames per second, as in 5e6 (default: no limit)", PORT},
    {"queues", QUEUES, "N", 0, "Set the number of Rx queues; each has its own thread and files (default: 1)",
     PORT},
    {"depth", DEPTH, "N", 0, "Set the number of descriptors of an Rx queue (default: 4096)", PORT},
    {"burst", BURST, "N", 0, "Set the maximum number of frames received at once (default: 128)", PORT},
    {"max-frame", MAX_FRAME, "BYTES", 0,
     "Set the maximum frame length (default: 9216; AF_XDP: 3456; with --generate: its length)", PORT},
    {"clock", CLOCK, "auto|hardware|tsc", 0,
     "Set the source of timestamps: the device, or the TSC of the CPU (default: auto, the device if it has "
     "timestamps)",
     PORT},
    {NULL, 0, NULL, 0, "Selection of frames:", SELECTION},
    {"snaplen", SNAPLEN, "BYTES", 0, "Truncate frames to this length; 0: keep whole frames (default: 0)",
     SELECTION},
    {"filter", FILTER, "TEXT", 0, "Keep frames that match this pcap-filter(7) expression (default: all)",
     SELECTION},
    {"p4", P4, "FILE.spec", 0,
     "Process every frame with a P4 program before the filter; needs --queues 1 (default: none)", SELECTION},
    {"p4-control", P4_CONTROL, "FILE", 0,
     "Read tables and registers of the P4 program from a control file (default: none)", SELECTION},
    {"sample", SAMPLE, "N", 0, "Keep one in N of the frames that pass the filter (default: 1)", SELECTION},
    {"sample-by", SAMPLE_BY, "count|hash", 0,
     "Keep every N-th frame, or frames whose CRC32 is a multiple of N, which are the same at every port "
     "(default: count)",
     SELECTION},
    {NULL, 0, NULL, 0, "Files:", OUTPUT},
    {"write", WRITE, "PATH", 0, "Write frames to PATH.pcap or PATH.pcapng (required)", OUTPUT},
    {"format", FORMAT, "pcap|pcapng", 0,
     "Reject a --write path without the suffix of this format (default: accept both)", OUTPUT},
    {"hash", HASH, NULL, 0, "Write the CRC32 of each whole frame to pcapng (epb_hash; the default)", OUTPUT},
    {"no-hash", NO_HASH, NULL, 0, "Write pcapng without the CRC32 of frames", OUTPUT},
    {"accounts", ACCOUNTS, "PATH", 0,
     "Write the frame counts to PATH as JSON (default: the capture's name with .json)", OUTPUT},
    {"rotate-bytes", ROTATE_BYTES, "SIZE", 0,
     "Start a new file before the current one exceeds SIZE (default: never)", OUTPUT},
    {"rotate-seconds", ROTATE_SECONDS, "SECONDS", 0,
     "Start a new file before the current one spans more than SECONDS (default: never)", OUTPUT},
    {NULL, 0, NULL, 0, "Writing to the disk:", DISK},
    {"writer", WRITER, "direct|buffered|sink", 0,
     "Write with O_DIRECT and io_uring, write with writev, or discard frames (default: direct; buffered if "
     "the file system has no O_DIRECT)",
     DISK},
    {"buffers", BUFFERS, "N", 0, "Set the number of buffers of a queue, for writer direct (default: 32)",
     DISK},
    {"buffer-bytes", BUFFER_BYTES, "SIZE", 0, "Set the size of a buffer (default: 1M)", DISK},
    {"flush-seconds", FLUSH_SECONDS, "SECONDS", 0,
     "Write complete blocks of 4 KiB at least this often (default: 1)", DISK},
    {"when-full", WHEN_FULL, "drop|wait", 0,
     "If no buffer is free, drop and count frames, or leave them in the queue of the NIC (default: drop)",
     DISK},
    {"preallocate", PREALLOCATE, "SIZE", 0,
     "Allocate disk space for SIZE bytes beyond the end of a file; 0: nothing (default: 64M)", DISK},
    {NULL, 0, NULL, 0, "End of the capture (default: SIGTERM, SIGINT or SIGHUP):", END},
    {"frames", FRAMES, "N", 0, "Stop after N received frames", END},
    {"duration", DURATION, "SECONDS", 0, "Stop after SECONDS", END},
    {"stop-when-idle", IDLE, "SECONDS", 0, "Stop after SECONDS without a frame", END},
    {NULL, 0, NULL, 0, "CPU and memory:", RESOURCES},
    {"spin", SPIN, NULL, 0, "Poll without sleeping between bursts (default: sleep)", RESOURCES},
    COMMON_OPTIONS,
    {NULL, 0, NULL, 0, NULL, 0},
};

static const char usage[] = "--write PATH [-- EAL_ARGUMENT...]";
static const char documentation[] =
    "Write the frames of a DPDK port to capture files, and the number of frames by outcome to PATH.json."
    "\v"
    "SIZE is in bytes, or with K, M or G in KiB, MiB or GiB. SIGTERM, SIGINT and SIGHUP stop a capture; "
    "frames received until then are written.";

const char *argp_program_version = PROGRAM " " ACAPELLA_VERSION;

static int parse_positive(double *to, const char *text, const char *name, const char *unit,
                          struct fault *fault) {
    char *end = NULL;
    *to = strtod(text, &end);
    return end != text && !*end && *to > 0 && *to < 1e9
               ? 0
               : fail(fault, "--%s %s: not a number of %s above 0; see --help", name, text, unit);
}

static int parse_seconds(double *to, const char *text, const char *name, struct fault *fault) {
    return parse_positive(to, text, name, "seconds", fault);
}

static int read_choice(struct options *options, int code, const char *text, struct fault *fault) {
    static const char *const formats[] = {"pcap", "pcapng", NULL};
    static const char *const writers[] = {"direct", "buffered", "sink", NULL};
    static const char *const clocks[] = {"auto", "hardware", "tsc", NULL};
    static const char *const when_full_choices[] = {"drop", "wait", NULL};
    static const char *const samplings[] = {"count", "hash", NULL};
    static const struct store_kind *const kinds[] = {&direct_store, &buffered_store, &sink_store};
    int at = -1;
    switch (code) {
        case FORMAT:
            at = option_choice(text, "format", formats, fault);
            options->format = at == 1 ? &pcapng_format : &pcap_format;
            break;
        case WRITER:
            at = option_choice(text, "writer", writers, fault);
            options->writer = kinds[at < 0 ? 0 : at];
            options->writer_chosen = true;
            break;
        case CLOCK:
            at = option_choice(text, "clock", clocks, fault);
            options->clock = (enum clock_choice)at;
            break;
        case SAMPLE_BY:
            at = option_choice(text, "sample-by", samplings, fault);
            options->sample_by_hash = at == 1;
            break;
        default:
            at = option_choice(text, "when-full", when_full_choices, fault);
            options->wait = at == 1;
    }
    return at < 0 ? -1 : 0;
}

static int read_number(struct options *options, int code, const char *text, struct fault *fault) {
    switch (code) {
        case QUEUES:
            return option_number(&options->queues, text, "queues", 1, OPTIONS_QUEUES, fault);
        case DEPTH:
            return option_number(&options->depth, text, "depth", 64, 65535, fault);
        case BURST:
            return option_number(&options->burst, text, "burst", 1, 512, fault);
        case SNAPLEN:
            return option_number(&options->snaplen, text, "snaplen", 0, 262144, fault);
        case MAX_FRAME:
            return option_number(&options->max_frame, text, "max-frame", 64, 65000, fault);
        case GENERATE:
            return option_number(&options->generate, text, "generate", 60, JUMBO_FRAME, fault);
        case SAMPLE:
            return option_size(&options->sample, text, "sample", 1, UINT32_MAX, fault);
        case ROTATE_BYTES:
            return option_size(&options->rotate_bytes, text, "rotate-bytes", 65536, INT64_MAX, fault);
        case PREALLOCATE:
            return option_size(&options->preallocate, text, "preallocate", 0, INT64_MAX, fault);
        case BUFFERS:
            return option_number(&options->buffers, text, "buffers", 3, 65536, fault);
        case BUFFER_BYTES:
            return option_size(&options->buffer_bytes, text, "buffer-bytes", 131072, 1U << 30, fault);
        default:
            return option_size(&options->frames, text, "frames", 1, UINT64_MAX, fault);
    }
}

static int read_option(struct options *options, int code, char *text, struct fault *fault) {
    switch (code) {
        case WRITE:
            options->write = text;
            return 0;
        case ACCOUNTS:
            options->accounts = text;
            return 0;
        case FILTER:
            options->filter = text;
            return 0;
        case P4:
            options->p4 = text;
            return 0;
        case P4_CONTROL:
            options->p4_control = text;
            return 0;
        case HASH:
        case NO_HASH:
            options->hash = code == HASH;
            options->hash_chosen = true;
            return 0;
        case SPIN:
            options->spin = true;
            return 0;
        case ROTATE_SECONDS:
            return parse_seconds(&options->rotate_s, text, "rotate-seconds", fault);
        case FLUSH_SECONDS:
            return parse_seconds(&options->flush_s, text, "flush-seconds", fault);
        case DURATION:
            return parse_seconds(&options->duration_s, text, "duration", fault);
        case IDLE:
            return parse_seconds(&options->idle_s, text, "stop-when-idle", fault);
        case RATE:
            return parse_positive(&options->rate, text, "rate", "frames per second", fault);
        case SAMPLE_BY:
        case FORMAT:
        case WRITER:
        case CLOCK:
        case WHEN_FULL:
            return read_choice(options, code, text, fault);
        default:
            return read_number(options, code, text, fault);
    }
}

static int check(struct options *options, struct fault *fault) {
    const int kinds = (options->eal.vdevs > 0) + (options->eal.pcis > 0) + (options->generate > 0);
    if (kinds != 1) {
        return fail(fault, "%s: use one of --vdev, --pci and --generate; see --help",
                    kinds == 0 ? "no port" : "several kinds of ports");
    }
    if (options->eal.pcis > 1) {
        return fail(fault, "--pci %s: a capture has one port; use --pci once", options->eal.pci[1]);
    }
    if (options->rate > 0 && options->generate == 0) {
        return fail(fault, "--rate: applies to --generate only; remove it");
    }
    if (!options->write) {
        return fail(fault, "--write: missing; use PATH.pcap or PATH.pcapng");
    }
    const struct format *named = format_of_path(options->write);
    if (!named) {
        return fail(fault, "--write %s: the name must end in .pcap or .pcapng", options->write);
    }
    if (options->format && options->format != named) {
        return fail(fault, "--format %s: does not match the name %s; change one of them",
                    options->format->name, options->write);
    }
    options->format = named;
    if (options->p4 && options->queues > 1) {
        return fail(fault, "--p4: supports one queue, not %u; use --queues 1", options->queues);
    }
    if (options->p4_control && !options->p4) {
        return fail(fault, "--p4-control: needs a program; use --p4");
    }
    if (options->max_frame == 0) {
        const bool xdp = options->eal.vdevs > 0 && strncmp(options->eal.vdev[0], "net_af_xdp", 10) == 0;
        options->max_frame = options->generate ? options->generate : xdp ? XDP_FRAME : JUMBO_FRAME;
    }
    if (options->hash && named == &pcap_format) {
        return fail(fault, "--hash: pcap cannot contain hashes of frames; write .pcapng");
    }
    if (!options->hash_chosen) {
        options->hash = named == &pcapng_format;
    }
    if (options->buffer_bytes % FILE_ALIGN) {
        return fail(fault, "--buffer-bytes: not a multiple of %d; use 1M, for example", FILE_ALIGN);
    }
    return 0;
}

/* The parser function for argp. */
static error_t parse(int key, char *text, struct argp_state *state) {
    struct command_line *line = state->input;
    struct options *options = line->options;
    if (key >= OPTION_OWN && key <= RATE) {
        return read_option(options, key, text, line->fault) == 0 ? 0 : EINVAL;
    }
    return command_line_default(key, state);
}

int options_read(struct options *options, int argc, char **argv, struct fault *fault) {
    *options = (struct options){
        .writer = &direct_store,
        .queues = 1,
        .depth = 4096,
        .burst = 128,
        .sample = 1,
        .preallocate = 64ULL << 20,
        .buffers = 32,
        .buffer_bytes = 1ULL << 20,
        .flush_s = 1,
    };
    const struct argp argp = {known, parse, usage, documentation, eal_options, NULL, NULL};
    const int status = command_line_read(&argp, argc, argv, options, &options->eal, fault);
    return status != 0 ? status : check(options, fault);
}
