#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAME 9216
#define FRAME_OF_XDP 3456 /* AF_XDP: a frame and its headroom within a page */

enum {
    VDEV = 256,
    PCI,
    WRITE,
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
    HUGE,
    MEMORY_MB,
    CPUS,
    SPIN,
    GENERATE,
    RATE,
    VERSION,
    HELP,
};

static const struct option names[] = {
    {"vdev", required_argument, NULL, VDEV},
    {"pci", required_argument, NULL, PCI},
    {"write", required_argument, NULL, WRITE},
    {"accounts", required_argument, NULL, ACCOUNTS},
    {"format", required_argument, NULL, FORMAT},
    {"writer", required_argument, NULL, WRITER},
    {"queues", required_argument, NULL, QUEUES},
    {"depth", required_argument, NULL, DEPTH},
    {"burst", required_argument, NULL, BURST},
    {"snaplen", required_argument, NULL, SNAPLEN},
    {"max-frame", required_argument, NULL, MAX_FRAME},
    {"filter", required_argument, NULL, FILTER},
    {"p4", required_argument, NULL, P4},
    {"p4-control", required_argument, NULL, P4_CONTROL},
    {"sample", required_argument, NULL, SAMPLE},
    {"sample-by", required_argument, NULL, SAMPLE_BY},
    {"hash", no_argument, NULL, HASH},
    {"no-hash", no_argument, NULL, NO_HASH},
    {"clock", required_argument, NULL, CLOCK},
    {"rotate-bytes", required_argument, NULL, ROTATE_BYTES},
    {"rotate-seconds", required_argument, NULL, ROTATE_SECONDS},
    {"preallocate", required_argument, NULL, PREALLOCATE},
    {"buffers", required_argument, NULL, BUFFERS},
    {"buffer-bytes", required_argument, NULL, BUFFER_BYTES},
    {"flush-seconds", required_argument, NULL, FLUSH_SECONDS},
    {"when-full", required_argument, NULL, WHEN_FULL},
    {"frames", required_argument, NULL, FRAMES},
    {"duration", required_argument, NULL, DURATION},
    {"stop-when-idle", required_argument, NULL, IDLE},
    {"huge", no_argument, NULL, HUGE},
    {"memory-mb", required_argument, NULL, MEMORY_MB},
    {"cpus", required_argument, NULL, CPUS},
    {"spin", no_argument, NULL, SPIN},
    {"generate", required_argument, NULL, GENERATE},
    {"rate", required_argument, NULL, RATE},
    {"version", no_argument, NULL, VERSION},
    {"help", no_argument, NULL, HELP},
    {NULL, 0, NULL, 0},
};

static const char usage[] =
    "usage: " PROGRAM
    " (--vdev DRIVER,ARGUMENTS | --pci ADDRESS | --generate BYTES) --write PATH.pcap|PATH.pcapng [OPTIONS] "
    "[-- EAL]\n"
    "Writes the frames of a DPDK port to files, and PATH.json with what became of every frame.\n"
    "  --vdev TEXT            a virtual device, as for EAL; the first one is captured from\n"
    "  --pci ADDRESS          a NIC bound to a DPDK driver\n"
    "  --generate BYTES       no device: frames of its own, from a thread of its own, to see what a disk "
    "takes\n"
    "  --rate N               of these, a second, as in 5e6 (as many as go)\n"
    "  --queues N             Rx queues, each with a thread and files of its own (1)\n"
    "  --depth N              descriptors of an Rx queue (4096)\n"
    "  --burst N              frames taken at once (128)\n"
    "  --max-frame BYTES      room for a frame in one buffer (9216; AF_XDP 3456)\n"
    "  --snaplen BYTES        bytes kept of a frame, 0: all (0)\n"
    "  --filter TEXT          pcap-filter(7)\n"
    "  --p4 FILE.spec         a P4 program that every frame goes through before the filter: one queue\n"
    "  --p4-control FILE      its tables and registers\n"
    "  --sample N             one frame in N of those that pass the filter (1)\n"
    "  --sample-by count|hash each N-th one, or those whose CRC32 is a multiple of N: the same everywhere "
    "(count)\n"
    "  --no-hash              pcapng without epb_hash, the CRC32 of each whole frame; pcap has no place for "
    "it\n"
    "  --clock auto|hardware|tsc   stamps of the device where it gives them, else of the TSC (auto)\n"
    "  --format pcap|pcapng   else by the name's end\n"
    "  --accounts PATH        the counts, JSON (the capture's name with .json)\n"
    "  --writer direct|buffered|sink   O_DIRECT and io_uring, writev, or nothing kept (direct, else "
    "buffered)\n"
    "  --buffers N, --buffer-bytes SIZE   ring of a queue's direct writer (32 of 1M)\n"
    "  --flush-seconds S      longest wait of whole blocks for the disk (1)\n"
    "  --when-full drop|wait  where no buffer is free: count the frame as dropped, or leave frames to the "
    "NIC (drop)\n"
    "  --preallocate SIZE     allocated ahead of the writer, 0: nothing (64M)\n"
    "  --rotate-bytes SIZE, --rotate-seconds S   begin a new file before it is larger, or spans longer\n"
    "  --frames N, --duration S, --stop-when-idle S   end after N received, after S, after S without a "
    "frame\n"
    "  --huge                 use hugepages\n"
    "  --memory-mb N          EAL's memory (what queues, depth and max-frame need)\n"
    "  --cpus LIST            CPUs of the queues' threads, in turn (all that the process may use)\n"
    "  --spin                 never sleep between bursts\n"
    "SIZE takes K, M, G. SIGTERM and SIGINT end a capture; what was received until then is written.\n";

static int size_of(uint64_t *to, const char *text, const char *name, uint64_t least, uint64_t most,
                   struct fault *fault) {
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    static const char units[] = "KMG";
    const char *unit = *end ? strchr(units, *end) : NULL;
    const unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    if (unit) {
        ++end;
    }
    if (errno || end == text || *end || *text == '-' || value > UINT64_MAX >> shift ||
        value << shift < least || value << shift > most) {
        return fail(fault, "--%s %s: not a whole number from %llu to %llu; see --help", name, text,
                    (unsigned long long)least, (unsigned long long)most);
    }
    *to = value << shift;
    return 0;
}

static int number_of(unsigned *to, const char *text, const char *name, unsigned least, unsigned most,
                     struct fault *fault) {
    uint64_t value = 0;
    const int status = size_of(&value, text, name, least, most, fault);
    *to = status == 0 ? (unsigned)value : *to;
    return status;
}

static int above_0(double *to, const char *text, const char *name, const char *unit, struct fault *fault) {
    char *end = NULL;
    *to = strtod(text, &end);
    return end != text && !*end && *to > 0 && *to < 1e9
               ? 0
               : fail(fault, "--%s %s: not a number of %s above 0; see --help", name, text, unit);
}

static int seconds_of(double *to, const char *text, const char *name, struct fault *fault) {
    return above_0(to, text, name, "seconds", fault);
}

static int choice(const char *text, const char *name, const char *const *words, struct fault *fault) {
    for (int i = 0; words[i]; ++i) {
        if (strcmp(text, words[i]) == 0) {
            return i;
        }
    }
    return fail(fault, "--%s %s: unknown; see --help", name, text);
}

static int read_choice(struct options *options, int code, const char *text, struct fault *fault) {
    static const char *const formats[] = {"pcap", "pcapng", NULL};
    static const char *const writers[] = {"direct", "buffered", "sink", NULL};
    static const char *const clocks[] = {"auto", "hardware", "tsc", NULL};
    static const char *const fulls[] = {"drop", "wait", NULL};
    static const char *const samplings[] = {"count", "hash", NULL};
    static const struct store_kind *const kinds[] = {&direct_store, &buffered_store, &sink_store};
    int at = -1;
    switch (code) {
        case FORMAT:
            at = choice(text, "format", formats, fault);
            options->format = at == 1 ? &pcapng_format : &pcap_format;
            break;
        case WRITER:
            at = choice(text, "writer", writers, fault);
            options->writer = kinds[at < 0 ? 0 : at];
            options->writer_chosen = true;
            break;
        case CLOCK:
            at = choice(text, "clock", clocks, fault);
            options->clock = (enum clock_choice)at;
            break;
        case SAMPLE_BY:
            at = choice(text, "sample-by", samplings, fault);
            options->sample_by_hash = at == 1;
            break;
        default:
            at = choice(text, "when-full", fulls, fault);
            options->wait = at == 1;
    }
    return at < 0 ? -1 : 0;
}

static int read_number(struct options *options, int code, const char *text, struct fault *fault) {
    switch (code) {
        case QUEUES:
            return number_of(&options->queues, text, "queues", 1, OPTIONS_QUEUES, fault);
        case DEPTH:
            return number_of(&options->depth, text, "depth", 64, 65535, fault);
        case BURST:
            return number_of(&options->burst, text, "burst", 1, 512, fault);
        case SNAPLEN:
            return number_of(&options->snaplen, text, "snaplen", 0, 262144, fault);
        case MAX_FRAME:
            return number_of(&options->max_frame, text, "max-frame", 64, 65000, fault);
        case GENERATE:
            return number_of(&options->generate, text, "generate", 60, FRAME, fault);
        case SAMPLE:
            return size_of(&options->sample, text, "sample", 1, UINT32_MAX, fault);
        case ROTATE_BYTES:
            return size_of(&options->rotate_bytes, text, "rotate-bytes", 65536, INT64_MAX, fault);
        case PREALLOCATE:
            return size_of(&options->preallocate, text, "preallocate", 0, INT64_MAX, fault);
        case BUFFERS:
            return number_of(&options->buffers, text, "buffers", 3, 65536, fault);
        case BUFFER_BYTES:
            return size_of(&options->buffer_bytes, text, "buffer-bytes", 131072, 1U << 30, fault);
        case FRAMES:
            return size_of(&options->frames, text, "frames", 1, UINT64_MAX, fault);
        default:
            return number_of(&options->memory_mb, text, "memory-mb", 16, 1U << 20, fault);
    }
}

static int read_one(struct options *options, int code, char *text, struct fault *fault) {
    switch (code) {
        case VDEV:
            if (options->vdevs == OPTIONS_DEVICES) {
                return fail(fault, "--vdev %s: more than %d; give fewer", text, OPTIONS_DEVICES);
            }
            options->vdev[options->vdevs++] = text;
            return 0;
        case PCI:
            options->pci = text;
            return 0;
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
        case CPUS:
            options->cpus = text;
            return 0;
        case HASH:
        case NO_HASH:
            options->hash = code == HASH;
            options->hash_chosen = true;
            return 0;
        case HUGE:
            options->huge = true;
            return 0;
        case SPIN:
            options->spin = true;
            return 0;
        case ROTATE_SECONDS:
            return seconds_of(&options->rotate_s, text, "rotate-seconds", fault);
        case FLUSH_SECONDS:
            return seconds_of(&options->flush_s, text, "flush-seconds", fault);
        case DURATION:
            return seconds_of(&options->duration_s, text, "duration", fault);
        case IDLE:
            return seconds_of(&options->idle_s, text, "stop-when-idle", fault);
        case RATE:
            return above_0(&options->rate, text, "rate", "frames a second", fault);
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

static bool ends_in(const char *text, const char *end) {
    const size_t size = strlen(text), least = strlen(end);
    return size > least && strcmp(text + size - least, end) == 0;
}

static int check(struct options *options, struct fault *fault) {
    if ((options->vdevs > 0) + (options->pci != NULL) + (options->generate > 0) != 1) {
        return fail(fault, "the port: give one of --vdev, --pci and --generate; see --help");
    }
    if (options->rate > 0 && options->generate == 0) {
        return fail(fault, "--rate: is that of --generate; a device has its own");
    }
    if (!options->write) {
        return fail(fault, "--write: missing; name the capture, PATH.pcap or PATH.pcapng");
    }
    if (!ends_in(options->write, ".pcap") && !ends_in(options->write, ".pcapng")) {
        return fail(fault, "--write %s: the name has to end in .pcap or .pcapng", options->write);
    }
    const struct format *named = ends_in(options->write, ".pcapng") ? &pcapng_format : &pcap_format;
    if (options->format && options->format != named) {
        return fail(fault, "--format %s: the name %s says another; change one of them", options->format->name,
                    options->write);
    }
    options->format = named;
    if (options->p4 && options->queues > 1) {
        return fail(fault, "--p4: has one pipeline, and %u queues were asked for; use --queues 1",
                    options->queues);
    }
    if (options->p4_control && !options->p4) {
        return fail(fault, "--p4-control: of which program? give --p4");
    }
    if (options->max_frame == 0) {
        const bool xdp = options->vdevs > 0 && strncmp(options->vdev[0], "net_af_xdp", 10) == 0;
        options->max_frame = options->generate ? options->generate : xdp ? FRAME_OF_XDP : FRAME;
    }
    if (options->hash && named == &pcap_format) {
        return fail(fault, "--hash: pcap has no place for a frame's hash; write .pcapng");
    }
    if (!options->hash_chosen) {
        options->hash = named == &pcapng_format;
    }
    if (options->buffer_bytes % FILE_ALIGN) {
        return fail(fault, "--buffer-bytes: not a multiple of %d; 1M is one", FILE_ALIGN);
    }
    return 0;
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
    opterr = 0;
    for (int code; (code = getopt_long(argc, argv, "+", names, NULL)) != -1;) {
        if (code == HELP || code == VERSION) {
            fputs(code == HELP ? usage : PROGRAM " " ACAPELLA_VERSION "\n", stdout);
            return 1;
        }
        if (code == '?') {
            return fail(fault, "%s: unknown, or without its value; see --help", argv[optind - 1]);
        }
        if (read_one(options, code, optarg, fault) != 0) {
            return -1;
        }
    }
    if (optind < argc && strcmp(argv[optind - 1], "--") != 0) {
        return fail(fault, "%s: not an option; EAL's own come after --", argv[optind]);
    }
    options->eal = argv + optind;
    options->eal_count = argc - optind;
    return check(options, fault);
}
