/* acapella-dpdk-generate: writes the packets of a model to a file, or sends them to a port at their times. */
#include <rte_eal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "arguments.h"
#include "common/signals.h"
#include "output_file.h"
#include "report.h"
#include "sender.h"
#include "trace.h"

#define MEMORY_MB 256

enum exit_status { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_TEMPFAIL = 75 };

static int print_error(const struct fault *fault, int status) {
    fprintf(stderr, PROGRAM ": error: %s\n", fault->text);
    return status;
}

static int write_file(struct model *model, const struct arguments *arguments, struct fault *fault) {
    const int64_t start_ns = (int64_t)arguments->start_ns;
    if (output_file_write(model, arguments->output, start_ns, fault) != 0) {
        return -1;
    }
    report_print(stdout, model, start_ns, NULL);
    return 0;
}

static int send_packets(struct model *model, struct arguments *arguments, struct fault *fault) {
    struct sender *sender = calloc(1, sizeof *sender); /* too large for the stack */
    if (!sender) {
        return fail(fault, "out of memory");
    }
    arguments->eal.program = PROGRAM;
    arguments->eal.threads = 1;
    if (arguments->eal.memory_mb == 0) {
        arguments->eal.memory_mb = MEMORY_MB;
    }
    int status = eal_start_threads(&arguments->eal, fault);
    if (status == 0) {
        status = sender_open(sender, model, arguments, fault);
        status = status == 0 ? sender_run(sender, fault) : status;
        if (status == 0) {
            report_print(stdout, model, sender->start_ns, &sender->transmission);
        }
        sender_close(sender);
        rte_eal_cleanup();
    }
    free(sender);
    return status;
}

/* Writes the packets of a compiled model to a file or a port. */
static int generate(struct arguments *arguments, struct fault *fault) {
    struct model model = {0};
    flow_begin_patterns();
    int status = model_read(&model, arguments->model, fault);
    if (status == 0) {
        status =
            arguments->output ? write_file(&model, arguments, fault) : send_packets(&model, arguments, fault);
    }
    model_free(&model);
    return status;
}

int main(int argc, char **argv) {
    struct arguments arguments;
    struct fault fault = {""};
    const int read = arguments_read(&arguments, argc, argv, &fault);
    if (read != 0) {
        return read > 0 ? EXIT_OK : print_error(&fault, EXIT_USAGE);
    }
    handle_signals();
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* a parent that was killed cannot stop this process */
    int status =
        arguments.trace ? trace_write(stdout, arguments.trace, &fault) : generate(&arguments, &fault);
    if (status == 0 && fflush(stdout) != 0) {
        status = fail(&fault, "standard output cannot be written");
    }
    return status == 0 ? EXIT_OK : print_error(&fault, is_system_error(&fault) ? EXIT_TEMPFAIL : EXIT_FAILED);
}
