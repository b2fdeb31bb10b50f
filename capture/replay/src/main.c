/* acapella-dpdk-replay: replays a capture, or packets that it recorded as a transparent bridge, at absolute
 * times, and reports the outcome and the departure of each packet. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rte_eal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/signals.h"
#include "control/report.h"

#define TICK_MS 5

enum exit_status { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

static int print_error(const struct fault *fault, int status) {
    fprintf(stderr, PROGRAM ": error: %s\n", fault->text);
    return status;
}

/* Executes the commands in the lines. Returns true if one of them is `quit`. */
static bool execute_lines(struct session *session, struct command_lines *lines) {
    bool too_long = false;
    for (char *line; (line = command_next(lines, &too_long));) {
        struct command command;
        struct fault fault;
        int status = -1;
        if (too_long) {
            fail(&fault, "a command of more than %d bytes", COMMAND_LINE_MAX);
        } else if (command_parse(&command, line, &fault) == 0) {
            status = session_execute(session, &command, &fault);
        }
        if (status < 0) {
            report_error(session, &fault);
        }
        if (status > 0) {
            return true;
        }
    }
    return false;
}

/* Executes commands until the input ends, `quit` is read or a signal arrives. Returns the reason, or NULL
 * with an error in fault. */
static const char *execute_commands(struct session *session, struct fault *fault) {
    static struct command_lines lines;
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    while (!received_signal) {
        if (session_update(session, fault) != 0) {
            return NULL;
        }
        if (ferror(session->out)) {
            fail(fault, "standard output cannot be written");
            return NULL;
        }
        if (poll(&input, 1, TICK_MS) <= 0) {
            continue;
        }
        const int status = command_read(&lines, STDIN_FILENO);
        if (status < 0) {
            fail(fault, "standard input: %s", strerror(errno));
            return NULL;
        }
        if (execute_lines(session, &lines)) {
            return "quit";
        }
        if (status == 0) {
            return "end of input";
        }
    }
    return signal_name();
}

static int run(struct session *session) {
    struct fault fault;
    int status = EXIT_FAILED;
    if (session_open(session, &fault) == 0) {
        report_ready(session);
        const char *reason = execute_commands(session, &fault);
        session_stop(session, END_STOP);
        if (reason) {
            report_quit(session, reason);
            status = EXIT_OK;
        }
    }
    session_close(session);
    rte_eal_cleanup();
    return status == EXIT_OK ? status : print_error(&fault, status);
}

int main(int argc, char **argv) {
    static struct session session;
    struct fault fault;
    struct options *options = &session.options;
    const int read = options_read(options, argc, argv, &fault);
    if (read != 0) {
        return read > 0 ? EXIT_OK : print_error(&fault, EXIT_USAGE);
    }
    handle_signals();
    session.out = stdout;
    if (session_check_memory(&session, &fault) != 0) {
        return print_error(&fault, EXIT_FAILED);
    }
    options->eal.program = PROGRAM;
    options->eal.threads = 1;
    if (eal_start_threads(&options->eal, &fault) != 0) {
        return print_error(&fault, EXIT_FAILED);
    }
    return run(&session);
}
