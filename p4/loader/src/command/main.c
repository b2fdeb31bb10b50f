/* acapella-p4-run: frames of captures through a P4 program, and an account of every one of them. */
#include <errno.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "command/commands.h"
#include "command/frames.h"
#include "command/input.h"
#include "command/statistics.h"
#include "common/eal.h"
#include "common/signals.h"
#include "pipeline/generate.h"

#define LONGEST_WAIT_NS 100000000

/* EXIT_OUTSIDE is EX_TEMPFAIL of sysexits.h: the machine lacks space or memory, or a disk fails. */
enum exit_status { EXIT_WHOLE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_OUTSIDE = 75 };

static int complain(const struct fault *fault, int status) {
    fprintf(stderr, PROGRAM ": %s\n", fault->text);
    return machine_failed(fault) ? EXIT_OUTSIDE : status;
}

/* A CPU that this process may use: EAL takes the first of all otherwise, and fails where it is not ours. */
static int usable_cpu(void) {
    cpu_set_t set;
    int cpu = 0;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        while (cpu < CPU_SETSIZE - 1 && !CPU_ISSET(cpu, &set)) {
            ++cpu;
        }
    }
    return cpu;
}

/* Memory of the process alone: no hugepages, no root. */
static int start_eal(uint64_t bytes, struct fault *fault) {
    char memory[32], map[48];
    snprintf(memory, sizeof memory, "%llu", (unsigned long long)((bytes >> 20) + 1));
    snprintf(map, sizeof map, "--lcores=0@%d", usable_cpu());
    char *arguments[] = {
        PROGRAM, map,    "--no-huge", "--no-shconf", "--no-pci", "--no-telemetry", "--log-level=*:error",
        "-m",    memory, NULL};
    rte_openlog_stream(stderr);
    return eal_start((int)(sizeof arguments / sizeof *arguments) - 1, arguments) < 0
               ? fail(fault, "DPDK does not start with %s MB of memory: %s", memory, rte_strerror(rte_errno))
               : 0;
}

/* Where frames go that a program gave back. */
struct taker {
    struct sink sink;
    struct frames frames;
};

static void take(void *user, const struct p4_verdict *verdict) {
    struct taker *taker = user;
    p4_frames_put(&taker->frames, verdict);
    if (verdict->outcome == P4_SENT) {
        p4_sink_put(&taker->sink, verdict);
    }
}

/* What --generate writes. */
struct code {
    const char *spec;
    struct fault *fault;
};

static uint64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The time of the captures on this machine's clock. */
struct pace {
    uint64_t begin_ns, first_ns;
    bool begun;
};

/* Waits until a frame of this time is due, or a signal comes; statements are executed meanwhile. */
static void wait_for(struct pace *pace, uint64_t ts_ns, struct p4 *p4, bool commands) {
    if (!pace->begun) {
        *pace = (struct pace){monotonic_ns(), ts_ns, true};
    }
    const uint64_t due = pace->begin_ns + (ts_ns > pace->first_ns ? ts_ns - pace->first_ns : 0);
    for (uint64_t now; !signaled && (now = monotonic_ns()) < due;) {
        /* never long: a signal may come between the look and the wait */
        const uint64_t wait_ns = due - now < LONGEST_WAIT_NS ? due - now : LONGEST_WAIT_NS;
        if (commands && wait_ns >= 1000000) {
            commands = p4_commands_attend(p4, (int)(wait_ns / 1000000));
        } else {
            const struct timespec wait = {0, (long)wait_ns};
            nanosleep(&wait, NULL);
        }
    }
}

/* Frames enter in bursts, or each in its time. */
static int run(struct p4 *p4, struct input *input, struct sink *sink, const struct options *options,
               struct fault *fault) {
    struct p4_frame *frames = calloc(options->burst, sizeof *frames);
    struct pace pace = {.begun = false};
    int count = frames ? 1 : fail(fault, "out of memory");
    while (count > 0 && !signaled && !sink->failed) {
        if (options->commands) {
            p4_commands_attend(p4, 0);
        }
        count = p4_input_read(input, frames, options->pace ? 1 : options->burst, fault);
        if (count > 0 && options->pace && !frames[0].untimed) {
            wait_for(&pace, frames[0].ts_ns, p4, options->commands);
        }
        if (count > 0 && !(options->pace && signaled) &&
            p4_process(p4, frames, (unsigned)count, fault) != 0) {
            count = -1;
        }
        p4_sink_flush(sink);
    }
    free(frames);
    return count < 0 ? -1 : p4_end(p4, fault);
}

static int dump(FILE *to, const void *p4) { return p4_dump_registers(p4, to); }

static int finish(struct statistics *statistics, struct sink *sink, bool ran, struct fault *fault) {
    const struct options *options = statistics->options;
    const struct sink closed = *sink;
    if (p4_sink_close(sink, ran, fault) != 0 || !ran) {
        return EXIT_FAILED;
    }
    statistics->sink = &closed;
    statistics->stopped_by = signaled ? signal_name() : "end";
    if ((options->registers && p4_write_file(options->registers, dump, statistics->p4, fault) != 0) ||
        (options->statistics &&
         p4_write_file(options->statistics, p4_statistics_write, statistics, fault) != 0)) {
        return EXIT_FAILED;
    }
    if (!p4_balanced(statistics->p4)) {
        fail(fault, "the counts do not add up; this is a mistake of the program, please report it");
        return EXIT_FAILED;
    }
    return EXIT_WHOLE;
}

static int run_all(struct p4 *p4, struct taker *taker, const struct options *options, struct fault *fault) {
    struct sink *sink = &taker->sink;
    for (unsigned i = 0; i < options->controls; ++i) {
        if (p4_control(p4, options->control[i], fault) != 0) {
            return EXIT_USAGE;
        }
    }
    struct input *input = p4_input_open(options->in, options->descriptor, options->end, options->ins, fault);
    if (!input) {
        return EXIT_USAGE;
    }
    int status = EXIT_USAGE;
    if (p4_frames_open(&taker->frames, options->frames, p4, fault) == 0 &&
        p4_sink_open(sink, options->out, options->format, options->interface, fault) == 0) {
        struct statistics statistics = {.options = options, .p4 = p4, .input = input};
        const bool ran = run(p4, input, sink, options, fault) == 0;
        struct fault first = *fault;
        status = finish(&statistics, sink, ran, fault);
        *fault = ran ? *fault : first;
    }
    if (p4_frames_close(&taker->frames, status == EXIT_WHOLE, fault) != 0) {
        status = EXIT_FAILED;
    }
    p4_input_close(input);
    return status;
}

static int write_code(FILE *to, const void *what) {
    const struct code *code = what;
    return p4_generate(code->spec, to, code->fault);
}

/* Writes the program's C code, which `acapella p4 run` compiles. */
static int generate(const struct options *options, struct fault *fault) {
    struct fault why = {.text = ""};
    const struct code code = {options->spec, &why};
    const int status = p4_write_file(options->generated, write_code, &code, fault);
    if (why.text[0]) {
        *fault = why;
    }
    return status == 0 ? EXIT_WHOLE : EXIT_FAILED;
}

/* Ends with the process that started this one, which decompresses captures and writes registers. What is not
 * whole has no name yet. */
static int follow(pid_t parent, struct fault *fault) {
    if (parent && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)) {
        return fail(fault, "--parent %d: is not the parent of this process, or has ended", (int)parent);
    }
    return 0;
}

int main(int argc, char **argv) {
    struct options options;
    struct fault fault;
    struct taker taker = {0};
    const int read = p4_options_read(&options, argc, argv, &fault);
    if (read != 0) {
        return read > 0 ? EXIT_WHOLE : complain(&fault, EXIT_USAGE);
    }
    if (follow(options.parent, &fault) != 0) {
        return complain(&fault, EXIT_FAILED);
    }
    handle_signals();
    const uint64_t memory = p4_memory(options.spec, &fault);
    if (!memory) {
        return complain(&fault, EXIT_USAGE);
    }
    if (start_eal(memory, &fault) != 0) {
        return complain(&fault, EXIT_FAILED);
    }
    if (options.generated) {
        const int status = generate(&options, &fault);
        rte_eal_cleanup();
        return status ? complain(&fault, status) : EXIT_WHOLE;
    }
    const struct p4_settings settings = {
        .spec = options.spec, .library = options.library, .ports = options.ins, .take = take, .user = &taker};
    struct p4 *p4 = p4_load(&settings, &fault);
    const int status = p4 ? run_all(p4, &taker, &options, &fault) : EXIT_USAGE;
    p4_free(p4);
    rte_eal_cleanup();
    return status ? complain(&fault, status) : EXIT_WHOLE;
}
