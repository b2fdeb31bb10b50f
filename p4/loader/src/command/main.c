/* acapella-p4-run: runs a P4 program over the frames of captures, and counts each of them by
 * outcome. */
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

/* EXIT_TEMPFAIL is EX_TEMPFAIL of sysexits.h: the machine lacks space or memory, or a disk fails. */
enum exit_status { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_TEMPFAIL = 75 };

static int print_error(const struct fault *fault, int status) {
    fprintf(stderr, PROGRAM ": %s\n", fault->text);
    return is_system_error(fault) ? EXIT_TEMPFAIL : status;
}

/* Returns a CPU that this process may use: by default EAL uses the machine's first one, and fails if that is
 * not allowed. */
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

/* Starts EAL with normal memory: no huge pages, no root. */
static int start_eal(uint64_t bytes, struct fault *fault) {
    char memory[32], map[48];
    snprintf(memory, sizeof memory, "%llu", (unsigned long long)((bytes >> 20) + 1));
    snprintf(map, sizeof map, "--lcores=0@%d", usable_cpu());
    char *arguments[] = {
        PROGRAM, map,    "--no-huge", "--no-shconf", "--no-pci", "--no-telemetry", "--log-level=*:error",
        "-m",    memory, NULL};
    rte_openlog_stream(stderr);
    return eal_start((int)(sizeof arguments / sizeof *arguments) - 1, arguments) < 0
               ? fail(fault, "DPDK cannot start with %s MB of memory: %s", memory, rte_strerror(rte_errno))
               : 0;
}

/* Outputs of the frames that the program has processed. */
struct outputs {
    struct output output;
    struct frames frames;
};

static void handle_verdict(void *user, const struct p4_verdict *verdict) {
    struct outputs *outputs = user;
    p4_frames_put(&outputs->frames, verdict);
    if (verdict->outcome == P4_SENT) {
        p4_output_put(&outputs->output, verdict);
    }
}

/* Argument of write_code. */
struct code {
    const char *spec;
    struct fault *fault;
};

static uint64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Maps the time of captures to the clock of this machine. */
struct pace {
    uint64_t begin_ns, first_ns;
    bool begun;
};

/* Waits until a frame of this time is due or a signal arrives, and executes control statements meanwhile. */
static void wait_for(struct pace *pace, uint64_t ts_ns, struct p4 *p4, bool commands) {
    if (!pace->begun) {
        *pace = (struct pace){monotonic_ns(), ts_ns, true};
    }
    const uint64_t due = pace->begin_ns + (ts_ns > pace->first_ns ? ts_ns - pace->first_ns : 0);
    for (uint64_t now; !received_signal && (now = monotonic_ns()) < due;) {
        /* short, because a signal may arrive between check and wait */
        const uint64_t wait_ns = due - now < LONGEST_WAIT_NS ? due - now : LONGEST_WAIT_NS;
        if (commands && wait_ns >= 1000000) {
            commands = p4_commands_poll(p4, (int)(wait_ns / 1000000));
        } else {
            const struct timespec wait = {0, (long)wait_ns};
            nanosleep(&wait, NULL);
        }
    }
}

/* Processes all frames, in bursts or paced. */
static int run(struct p4 *p4, struct input *input, struct output *output, const struct options *options,
               struct fault *fault) {
    struct p4_frame *frames = calloc(options->burst, sizeof *frames);
    struct pace pace = {.begun = false};
    int count = frames ? 1 : fail(fault, "out of memory");
    while (count > 0 && !received_signal && !output->failed) {
        if (options->commands) {
            p4_commands_poll(p4, 0);
        }
        count = p4_input_read(input, frames, options->pace ? 1 : options->burst, fault);
        if (count > 0 && options->pace && !frames[0].untimed) {
            wait_for(&pace, frames[0].ts_ns, p4, options->commands);
        }
        if (count > 0 && !(options->pace && received_signal) &&
            p4_process(p4, frames, (unsigned)count, fault) != 0) {
            count = -1;
        }
        p4_output_flush(output);
    }
    free(frames);
    return count < 0 ? -1 : p4_end(p4, fault);
}

static int dump(FILE *to, const void *p4) { return p4_dump_registers(p4, to); }

static int finish(struct statistics *statistics, struct output *output, bool ran, struct fault *fault) {
    const struct options *options = statistics->options;
    const struct output closed = *output;
    if (p4_output_close(output, ran, fault) != 0 || !ran) {
        return EXIT_FAILED;
    }
    statistics->output = &closed;
    statistics->stopped_by = received_signal ? signal_name() : "end";
    if ((options->registers && write_and_publish(options->registers, dump, statistics->p4, fault) != 0) ||
        (options->statistics &&
         write_and_publish(options->statistics, p4_statistics_write, statistics, fault) != 0)) {
        return EXIT_FAILED;
    }
    if (!p4_balanced(statistics->p4)) {
        fail(fault, "the counts do not add up; this is a bug, please report it");
        return EXIT_FAILED;
    }
    return EXIT_OK;
}

static int run_all(struct p4 *p4, struct outputs *outputs, const struct options *options,
                   struct fault *fault) {
    struct output *output = &outputs->output;
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
    if (p4_frames_open(&outputs->frames, options->frames, p4, fault) == 0 &&
        p4_output_open(output, options->out, options->format, options->interface, fault) == 0) {
        struct statistics statistics = {.options = options, .p4 = p4, .input = input};
        const bool ran = run(p4, input, output, options, fault) == 0;
        struct fault first = *fault;
        status = finish(&statistics, output, ran, fault);
        *fault = ran ? *fault : first;
    }
    if (p4_frames_close(&outputs->frames, status == EXIT_OK, fault) != 0) {
        status = EXIT_FAILED;
    }
    p4_input_close(input);
    return status;
}

static int write_code(FILE *to, const void *argument) {
    const struct code *code = argument;
    return p4_generate(code->spec, to, code->fault);
}

/* Writes the C code of the program, which `acapella p4 run` compiles. */
static int generate(const struct options *options, struct fault *fault) {
    struct fault reason = {.text = ""};
    const struct code code = {options->spec, &reason};
    const int status = write_and_publish(options->generated, write_code, &code, fault);
    if (reason.text[0]) {
        *fault = reason;
    }
    return status == 0 ? EXIT_OK : EXIT_FAILED;
}

/* Makes this process exit with its parent, which decompresses captures and writes registers. Incomplete
 * outputs have no name yet. */
static int exit_with_parent(pid_t parent, struct fault *fault) {
    if (parent && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)) {
        return fail(fault, "--parent %d: not the parent of this process, or it has ended", (int)parent);
    }
    return 0;
}

int main(int argc, char **argv) {
    struct options options;
    struct fault fault;
    struct outputs outputs = {0};
    const int read = p4_options_read(&options, argc, argv, &fault);
    if (read != 0) {
        return read > 0 ? EXIT_OK : print_error(&fault, EXIT_USAGE);
    }
    if (exit_with_parent(options.parent, &fault) != 0) {
        return print_error(&fault, EXIT_FAILED);
    }
    handle_signals();
    const uint64_t memory = p4_memory(options.spec, &fault);
    if (!memory) {
        return print_error(&fault, EXIT_USAGE);
    }
    if (start_eal(memory, &fault) != 0) {
        return print_error(&fault, EXIT_FAILED);
    }
    if (options.generated) {
        const int status = generate(&options, &fault);
        rte_eal_cleanup();
        return status ? print_error(&fault, status) : EXIT_OK;
    }
    const struct p4_settings settings = {.spec = options.spec,
                                         .library = options.library,
                                         .ports = options.ins,
                                         .on_verdict = handle_verdict,
                                         .user = &outputs};
    struct p4 *p4 = p4_load(&settings, &fault);
    const int status = p4 ? run_all(p4, &outputs, &options, &fault) : EXIT_USAGE;
    p4_free(p4);
    rte_eal_cleanup();
    return status ? print_error(&fault, status) : EXIT_OK;
}
