/* acapella-monitor: counts the packets that acapella-dpdk-generate sent, per port and per flow. */
#include <limits.h>
#include <rte_eal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "common/eal.h"
#include "common/signals.h"
#include "files/flow_list.h"
#include "files/packet_log.h"
#include "files/result.h"
#include "files/truncated.h"
#include "from_file.h"
#include "from_ports.h"

#define BASE_MB 64

/* EXIT_TEMPFAIL is EX_TEMPFAIL of sysexits.h: the machine lacks space or memory, or a disk fails. */
enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_TEMPFAIL = 75 };

struct run {
    struct options options;
    unsigned ports;
    struct expected_flow *expected;
    struct monitor monitor[PORTS_MAX];
    struct receiver receiver[PORTS_MAX]; /* unused if packets are read from files */
    struct packet_log log[PORTS_MAX];
    struct truncated truncated[PORTS_MAX];
    char log_path[PORTS_MAX][PATH_MAX];
};

static int print_error(const struct fault *fault, int status) {
    fprintf(stderr, PROGRAM ": %s\n", fault->text);
    return status;
}

static int open_monitors(struct run *run, struct fault *fault) {
    struct options *options = &run->options;
    struct monitor_settings *settings = &options->monitor;
    settings->window = options->window;
    settings->flows = options->max_flows;
    if (options->flows && flow_list_read(&run->expected, &settings->flows, options->flows, fault) != 0) {
        return -1;
    }
    settings->expected = run->expected;
    for (unsigned i = 0; i < run->ports; ++i) {
        if (monitor_open(&run->monitor[i], settings, fault) != 0) {
            return -1;
        }
        snprintf(run->log_path[i], sizeof *run->log_path, "%s-%u", options->packets ? options->packets : "",
                 i);
        if (options->packets &&
            packet_log_open(&run->log[i], run->log_path[i], &run->monitor[i], fault) != 0) {
            return -1;
        }
        if (options->write && truncated_open(&run->truncated[i], options->write, options->snaplen, i,
                                             run->ports > 1, &run->monitor[i], fault) != 0) {
            return -1;
        }
    }
    return 0;
}

static int close_logs(struct run *run, struct fault *fault) {
    int status = 0;
    for (unsigned i = 0; i < run->ports; ++i) {
        status = packet_log_close(&run->log[i], fault) != 0 ? -1 : status;
        status = truncated_close(&run->truncated[i], fault) != 0 ? -1 : status;
    }
    return status;
}

static int count_files(struct run *run, struct fault *fault) {
    for (unsigned i = 0; i < run->ports; ++i) {
        if (monitor_file(&run->monitor[i], run->options.read[i], fault) != 0) {
            return -1;
        }
    }
    return 0;
}

/* Starts EAL with a thread for each port. */
static int count_ports(struct run *run, struct fault *fault) {
    struct eal_settings eal = run->options.eal;
    const struct port_settings port = {.queues = 1,
                                       .depth = run->options.depth,
                                       .burst = MONITOR_BURST,
                                       .max_frame = run->options.max_frame};
    eal.program = PROGRAM;
    eal.threads = run->ports;
    eal.memory_mb = eal.memory_mb ? eal.memory_mb : BASE_MB + run->ports * receive_port_memory_mb(&port);
    if (eal_start_threads(&eal, fault) != 0) {
        return -1;
    }
    for (unsigned i = 0; i < run->ports; ++i) {
        run->receiver[i].monitor = &run->monitor[i];
        run->receiver[i].options = &run->options;
    }
    const int status = monitor_ports(run->receiver, run->ports, fault);
    rte_eal_cleanup();
    return status;
}

static int write_result(const struct run *run, struct fault *fault) {
    const bool files = run->options.files > 0;
    struct result_port port[PORTS_MAX];
    for (unsigned i = 0; i < run->ports; ++i) {
        const struct receiver *receiver = &run->receiver[i];
        const char *device = *receiver->port.interface ? receiver->port.interface : receiver->port.name;
        port[i] = (struct result_port){files ? run->options.read[i] : device,
                                       &run->monitor[i],
                                       receiver->kernel_dropped,
                                       receiver->missed,
                                       receiver->clock.steps,
                                       receiver->clock.largest_ns,
                                       receiver->stepped_from_ns};
        if (!monitor_balances(&run->monitor[i])) {
            return fail(fault, "%s: the counts do not add up; this is a bug, please report it", port[i].name);
        }
    }
    const struct result result = {port, run->ports};
    return result_write(run->options.result, &result, fault);
}

static int count_and_write(struct run *run, struct fault *fault) {
    int status = open_monitors(run, fault);
    if (status == 0) {
        status = run->options.files ? count_files(run, fault) : count_ports(run, fault);
    }
    if (status == 0) {
        status = write_result(run, fault); /* even if another output is incomplete */
    }
    struct fault log_fault;
    if (close_logs(run, status == 0 ? fault : &log_fault) != 0) {
        status = -1;
    }
    for (unsigned i = 0; i < run->ports; ++i) {
        monitor_close(&run->monitor[i]);
    }
    free(run->expected);
    return status;
}

int main(int argc, char **argv) {
    static struct run run; /* zeroed, and too large for the stack */
    struct fault fault;
    const int read = options_read(&run.options, argc, argv, &fault);
    if (read != 0) {
        return read > 0 ? EXIT_OK : print_error(&fault, EXIT_USAGE);
    }
    run.ports = run.options.files ? run.options.files : run.options.eal.vdevs + run.options.eal.pcis;
    handle_signals();
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* a parent that was killed cannot stop this process */
    return count_and_write(&run, &fault) == 0
               ? EXIT_OK
               : print_error(&fault, is_system_error(&fault) ? EXIT_TEMPFAIL : EXIT_FAILED);
}
