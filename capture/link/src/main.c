/* acapella-link: delays packets of TUN devices, each in a network namespace, by a constant time, and loses,
 * reorders or duplicates some on request. One thread waits for packets, commands, and the time of the next
 * packet; it does not busy-wait. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/command_line.h"
#include "common/signals.h"
#include "control.h"

#define PROGRAM "acapella-link"
#define REALTIME_PRIORITY 50
#define MEMORY_DEFAULT (64 << 20)
#define MEMORY_MIN (1 << 17)
#define MEMORY_MAX (4ULL << 30)

enum exit_status { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };
enum { MEMORY = OPTION_OWN };
enum { COMMANDS, TIMER, FIRST_DEVICE };

struct options {
    uint64_t memory;
    char *arguments[DIRECTIONS];
    unsigned count;
};

static error_t parse(int key, char *value, struct argp_state *state) {
    struct command_line *line = state->input;
    struct options *options = line->options;
    switch (key) {
        case MEMORY:
            return option_size(&options->memory, value, "memory", MEMORY_MIN, MEMORY_MAX, line->fault) == 0
                       ? 0
                       : EINVAL;
        case ARGP_KEY_ARG:
            if (options->count == DIRECTIONS) {
                fail(line->fault, "at most %d devices", DIRECTIONS);
                return EINVAL;
            }
            options->arguments[options->count++] = value;
            return 0;
        case ARGP_KEY_NO_ARGS:
            if (!line->printed) {
                fail(line->fault, "no device; specify NAME=FILE, a TUN device and its network namespace");
                return EINVAL;
            }
            return 0;
        default:
            return command_line_default(key, state);
    }
}

static int options_read(struct options *options, int argc, char **argv, struct fault *fault) {
    static const struct argp_option known[] = {
        {"memory", MEMORY, "SIZE", 0, "Set the memory for packets of each device (default: 64M)", 0},
        COMMON_OPTIONS,
        {0},
    };
    static const struct argp argp = {
        known,
        parse,
        "NAME=FILE...",
        "Delay the packets of TUN devices. FILE is the network namespace of the device. Commands are read "
        "from standard input: set NAME DELAY_NS LOSS_PPM REORDER_PPM SEED [DUPLICATE_PPM]; statistics. The "
        "program ends at the end of its input.",
        NULL,
        NULL,
        NULL,
    };
    argp_program_version = PROGRAM " " ACAPELLA_VERSION;
    options->memory = MEMORY_DEFAULT;
    return command_line_read(&argp, argc, argv, options, NULL, fault);
}

/* Sets a real-time priority if permitted, and timers without slack in any case. Locks the memory if
 * permitted, so that the kernel does not reclaim pages of waiting packets. Returns true if the priority was
 * set. */
static bool set_priority(void) {
    (void)mlockall(MCL_CURRENT | MCL_FUTURE);
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    const struct sched_param priority = {.sched_priority = REALTIME_PRIORITY};
    return sched_setscheduler(0, SCHED_FIFO, &priority) == 0;
}

/* Sends the packets that are due on all devices, and sets the timer for the next packet if its time has
 * changed. */
static int send_due(struct link *link, int timer, int64_t *set_ns, struct fault *fault) {
    int64_t next_ns = INT64_MAX;
    for (unsigned i = 0; i < link->directions; ++i) {
        const int64_t due_ns = direction_send_due(&link->direction[i], 2 * link->wake_ns);
        next_ns = due_ns < next_ns ? due_ns : next_ns;
    }
    if (next_ns == *set_ns) {
        return 0;
    }
    *set_ns = next_ns;
    struct itimerspec at = {0}; /* disarms the timer */
    if (next_ns != INT64_MAX) {
        at.it_value.tv_sec = next_ns / 1000000000;
        at.it_value.tv_nsec = next_ns % 1000000000;
    }
    return timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL) == 0
               ? 0
               : fail(fault, "timer: %s", strerror(errno));
}

static int serve(struct link *link, int timer, struct fault *fault) {
    struct pollfd ready[FIRST_DEVICE + DIRECTIONS] = {{STDIN_FILENO, POLLIN, 0}, {timer, POLLIN, 0}};
    for (unsigned i = 0; i < link->directions; ++i) {
        ready[FIRST_DEVICE + i] = (struct pollfd){link->direction[i].fd, POLLIN, 0};
    }
    int64_t set_ns = INT64_MAX;
    while (!received_signal) {
        if (send_due(link, timer, &set_ns, fault) != 0) {
            return -1;
        }
        if (poll(ready, FIRST_DEVICE + link->directions, -1) < 0 && errno != EINTR) {
            return fail(fault, "poll: %s", strerror(errno));
        }
        if (ready[TIMER].revents) {
            link->wake_ns = wake_update(link->wake_ns, monotonic_ns() - set_ns);
        }
        for (unsigned i = 0; i < link->directions; ++i) {
            if (ready[FIRST_DEVICE + i].revents && direction_read(&link->direction[i], fault) != 0) {
                return -1;
            }
        }
        const int end = ready[COMMANDS].revents ? control_read(link, STDIN_FILENO, fault) : 0;
        if (end != 0) {
            return end > 0 ? 0 : -1;
        }
    }
    return 0;
}

static int run(struct link *link, const struct options *options, struct fault *fault) {
    for (; link->directions < options->count; ++link->directions) {
        struct direction *direction = &link->direction[link->directions];
        if (direction_open(direction, options->arguments[link->directions], options->memory, fault) != 0) {
            direction_close(direction);
            return -1;
        }
    }
    const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (timer < 0) {
        return fail(fault, "timer: %s", strerror(errno));
    }
    printf("{\"ready\": true, \"realtime\": %s}\n", set_priority() ? "true" : "false");
    fflush(stdout);
    const int status = serve(link, timer, fault);
    close(timer);
    return status;
}

int main(int argc, char **argv) {
    static struct link link;
    struct options options = {0};
    struct fault fault = {""};
    const int read = options_read(&options, argc, argv, &fault);
    if (read > 0) {
        return EXIT_OK;
    }
    int status = EXIT_USAGE;
    if (read == 0) {
        handle_signals();
        status = run(&link, &options, &fault) == 0 ? EXIT_OK : EXIT_FAILED;
    }
    for (unsigned i = 0; i < link.directions; ++i) {
        direction_close(&link.direction[i]);
    }
    if (status != EXIT_OK) {
        fprintf(stderr, PROGRAM ": error: %s\n", fault.text);
    }
    return status;
}
