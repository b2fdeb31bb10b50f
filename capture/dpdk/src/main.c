/* acapella-dpdk-capture: writes the frames of a DPDK port to capture files, and counts each of them by
 * outcome.
 */
#include <errno.h>
#include <rte_eal.h>
#include <rte_lcore.h>
#include <rte_net_crc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "accounts.h"
#include "common/signals.h"
#include "port/filter.h"

#define TICK_NS 2000000
#define DISCIPLINE_NS 100000000ULL
#define HEARTBEAT_NS 1000000000ULL
#define SECOND 1e9

enum exit_status { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

static uint64_t clock_time_ns(clockid_t id) {
    struct timespec now;
    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int print_error(const struct fault *fault, int status) {
    fprintf(stderr, PROGRAM ": error: %s\n", fault->text);
    return status;
}

/* Paths of accounts and heartbeat, and the captures' path without suffix. The caller frees them. */
struct paths {
    char *accounts, *heartbeat, *stem;
};

static int make_paths(struct paths *paths, const struct options *options, struct fault *fault) {
    const int stem = (int)(strrchr(options->write, '.') - options->write);
    const int stem_length = asprintf(&paths->stem, "%.*s", stem, options->write);
    const int accounts = options->accounts ? asprintf(&paths->accounts, "%s", options->accounts)
                                           : asprintf(&paths->accounts, "%.*s.json", stem, options->write);
    if (stem_length < 0 || accounts < 0 || asprintf(&paths->heartbeat, "%s.part", paths->accounts) < 0) {
        return fail(fault, "%s: out of memory", options->write);
    }
    if (access(paths->accounts, F_OK) == 0) {
        return fail(fault, "%s: exists; remove it or write under another name", paths->accounts);
    }
    return 0;
}

/* Loads the P4 program of a queue. */
static int load_program(struct worker *worker, struct fault *fault) {
    const struct options *options = &worker->capture->options;
    const struct p4_settings settings = {
        .spec = options->p4, .ports = 1, .on_verdict = worker_preprocessed, .user = worker};
    worker->p4 = p4_load(&settings, fault);
    return !worker->p4 || (options->p4_control && p4_control(worker->p4, options->p4_control, fault) != 0)
               ? -1
               : 0;
}

static int open_outputs(struct capture *capture, const struct paths *paths, struct fault *fault) {
    const struct options *options = &capture->options;
    const struct output_settings settings = {
        .stem = paths->stem,
        .extension = options->format->name,
        .many_queues = options->queues > 1,
        .rotate_bytes = options->rotate_bytes,
        .rotate_ns = (uint64_t)(options->rotate_s * SECOND),
        .wait = options->wait,
        .format = options->format,
        .kind = capture->writer,
        .store = {&capture->files, options->buffers, options->buffer_bytes,
                  (uint64_t)(options->flush_s * SECOND)},
        .info = {.program = PROGRAM " " ACAPELLA_VERSION,
                 .interface = *capture->port.interface ? capture->port.interface : capture->port.name,
                 .filter = options->filter,
                 .snaplen = options->snaplen},
    };
    for (unsigned queue = 0; queue < options->queues; ++queue) {
        struct worker *worker = &capture->worker[queue];
        worker->capture = capture;
        worker->queue = queue;
        worker->joined = malloc(RTE_ETHER_MAX_JUMBO_FRAME_LEN + UINT16_MAX);
        worker->output = worker->joined ? output_open(&settings, queue, &worker->counts, fault) : NULL;
        if (!worker->output) {
            return worker->joined ? -1 : fail(fault, "out of memory");
        }
        if (options->p4 && load_program(worker, fault) != 0) {
            return -1;
        }
    }
    return 0;
}

/* Chooses the writer: the one of the options, except that the default writer, direct, is replaced by buffered
 * if it cannot be used. */
static int choose_writer(struct capture *capture, struct fault *fault) {
    const struct options *options = &capture->options;
    const struct store_settings probe = {&capture->files, 3, FILE_ALIGN, 0};
    struct fault reason = {""};
    bool direct = true;
    capture->writer = options->writer;
    if (capture->writer != &direct_store) {
        return 0;
    }
    struct store *store = direct_store.open(&probe, &reason);
    if (store) {
        direct_store.close(store);
        struct files files = {.lock = PTHREAD_MUTEX_INITIALIZER};
        struct file *file = file_open(&files, options->write, 0, 0, options->format, &direct, fault);
        if (!file) {
            return -1;
        }
        close(file->fd);
        unlink(file->part);
        files_free(&files);
        if (!direct) {
            fail(&reason, "%s: its file system has no O_DIRECT; write elsewhere or use --writer buffered",
                 options->write);
        }
    }
    if (store && direct) {
        return 0;
    }
    if (options->writer_chosen) {
        *fault = reason;
        return -1;
    }
    capture->writer = &buffered_store;
    snprintf(capture->writer_note, sizeof capture->writer_note, "not direct: %.230s", reason.text);
    return 0;
}

static bool is_any_worker_running(const struct capture *capture) {
    for (unsigned queue = 0; queue < capture->options.queues; ++queue) {
        if (rte_eal_get_lcore_state(queue + 1) == RUNNING) {
            return true;
        }
    }
    return false;
}

/* Returns the time without a frame on any queue. Time after the last poll of a queue does not count. */
static uint64_t idle_ns(const struct capture *capture) {
    uint64_t least = UINT64_MAX;
    for (unsigned queue = 0; queue < capture->options.queues; ++queue) {
        const uint64_t idle = capture->worker[queue].idle_ns;
        least = idle < least ? idle : least;
    }
    return least;
}

/* Returns the reason for the end of the capture, or NULL while it continues. */
static const char *find_stop_reason(const struct capture *capture, uint64_t begin, uint64_t now) {
    const struct options *options = &capture->options;
    bool failed = capture->files.failed;
    for (unsigned queue = 0; queue < options->queues; ++queue) {
        failed |= capture->worker[queue].failed;
    }
    if (failed) {
        return "write error";
    }
    if (received_signal) {
        return signal_name();
    }
    if (options->frames && accounts_received(capture) >= options->frames) {
        return "frames";
    }
    if (options->duration_s > 0 && now >= begin + (uint64_t)(options->duration_s * SECOND)) {
        return "duration";
    }
    if (options->idle_s > 0 && idle_ns(capture) >= (uint64_t)(options->idle_s * SECOND)) {
        return "idle";
    }
    return NULL;
}

/* Loop of the main thread: disciplines the clock, finishes files and writes the heartbeat. Returns the reason
 * for the end of the capture. */
static const char *supervise(struct capture *capture, const struct interface_counters *before,
                             const struct paths *paths) {
    const struct timespec tick = {0, TICK_NS};
    const uint64_t begin = clock_time_ns(CLOCK_MONOTONIC);
    uint64_t disciplined = begin, beat = begin;
    const char *reason = NULL;
    struct fault fault;
    while (is_any_worker_running(capture)) {
        const uint64_t now = clock_time_ns(CLOCK_MONOTONIC);
        if (!reason && (reason = find_stop_reason(capture, begin, now))) {
            generator_stop(&capture->generator); /* first, so that all offered frames are received */
            capture->stop = true;
        }
        if (now - disciplined >= DISCIPLINE_NS) {
            disciplined = now;
            receive_port_discipline(&capture->port);
        }
        files_finish_pending(&capture->files);
        if (now - beat >= HEARTBEAT_NS) {
            beat = now;
            accounts_write(capture, before, paths->heartbeat, &fault); /* the files report a full disk */
        }
        nanosleep(&tick, NULL);
    }
    if (!reason) { /* the threads stopped after an error or --frames */
        reason = find_stop_reason(capture, begin, clock_time_ns(CLOCK_MONOTONIC));
    }
    return reason ? reason : "frames";
}

static bool report_failures(const struct capture *capture) {
    bool failed = false;
    for (unsigned queue = 0; queue < capture->options.queues; ++queue) {
        const struct worker *worker = &capture->worker[queue];
        if (worker->failed && *worker->fault.text) {
            print_error(&worker->fault, 0);
        }
        failed |= worker->failed;
    }
    for (const struct file *file = capture->files.first; file; file = file->next) {
        if (file->error) {
            fprintf(stderr, PROGRAM ": error: %s: %s: %s%s; kept %llu whole frames\n", file->part,
                    file->failed, strerror(file->error), capture_file_advice(file->error),
                    (unsigned long long)file->kept_frames);
        }
        failed |= file->error != 0;
    }
    return failed;
}

/* Removes the files of a capture that did not start. */
static void abandon(struct capture *capture) {
    capture->files.abandon = true;
    for (unsigned queue = 0; queue < capture->options.queues; ++queue) {
        if (capture->worker[queue].output) {
            output_close(capture->worker[queue].output);
        }
    }
    files_finish_pending(&capture->files);
}

/* DPDK selects its CRC code in the first call, and `handlers` in rte_net_crc.c is NULL meanwhile (bug in
 * DPDK 22.11 to 24.11): a call by a second thread would crash. Therefore call it once before other threads
 * start. */
static void select_crc(void) {
    const uint8_t nothing = 0;
    (void)rte_net_crc_calc(&nothing, sizeof nothing, RTE_NET_CRC32_ETH);
}

/* Captures frames, from the start of the port to the final accounts. */
static int run(struct capture *capture, const struct paths *paths) {
    struct fault fault;
    struct interface_counters before = {.known = false};
    int status = accounts_write(capture, &before, paths->heartbeat, &fault);
    if (status == 0) {
        status = receive_port_start(&capture->port, &fault);
    }
    if (status != 0) {
        abandon(capture);
        unlink(paths->heartbeat);
        return print_error(&fault, EXIT_FAILED);
    }
    /* In this order, a frame that arrives between the two calls is counted as lost; in the other order, it
     * would be received but not in the counters, and hide a lost frame. */
    before = read_interface_counters(capture->port.interface);
    receive_port_flush(&capture->port);
    select_crc();
    capture->begin_ns = clock_time_ns(CLOCK_REALTIME);
    for (unsigned queue = 0; queue < capture->options.queues; ++queue) {
        rte_eal_remote_launch(worker_run, &capture->worker[queue], queue + 1);
    }
    generator_start(&capture->generator, capture->port.tsc_hz);
    fprintf(stderr, PROGRAM ": listening on %s, %u queues, writer %s\n", capture->port.name,
            capture->port.queues, capture->writer->name);
    const char *reason = supervise(capture, &before, paths);
    generator_stop(&capture->generator);
    rte_eal_mp_wait_lcore();
    capture->end_ns = clock_time_ns(CLOCK_REALTIME);
    files_finish_pending(&capture->files);
    unlink(paths->heartbeat); /* this frees its space for the accounts */
    status = report_failures(capture) ? EXIT_FAILED : EXIT_OK;
    /* If the last writes failed, the reason is a write error. */
    capture->stopped_by = status == EXIT_FAILED ? "write error" : reason;
    if (accounts_write(capture, &before, paths->accounts, &fault) != 0) {
        status = print_error(&fault, EXIT_FAILED);
    }
    if (!accounts_balance(capture)) {
        fail(&fault, "%s: the counts do not add up; this is a bug, please report it", paths->accounts);
        status = print_error(&fault, EXIT_FAILED);
    }
    return status;
}

static int open_and_run(struct capture *capture, const struct paths *paths) {
    struct fault fault;
    const struct port_settings port = port_settings_of(&capture->options);
    int status = 0;
    if (capture->options.filter && *capture->options.filter) {
        if (filter_compile(&capture->filter, capture->options.filter, &fault) != 0) {
            return print_error(&fault, EXIT_USAGE);
        }
        capture->filters = true;
    }
    if (capture->options.p4) {
        capture->options.p4_memory = p4_memory(capture->options.p4, &fault);
        if (capture->options.p4_memory == 0) {
            return print_error(&fault, EXIT_USAGE);
        }
    }
    if (choose_writer(capture, &fault) != 0 || port_start_eal(&capture->options, &fault) != 0) {
        return print_error(&fault, EXIT_FAILED);
    }
    if ((capture->options.generate && generator_open(&capture->generator, &capture->options, &fault) != 0) ||
        receive_port_open(&capture->port, &port, &fault) != 0) {
        status = print_error(&fault, EXIT_FAILED);
    } else if (open_outputs(capture, paths, &fault) != 0) {
        abandon(capture);
        status = print_error(&fault, EXIT_FAILED);
    } else {
        status = run(capture, paths);
        receive_port_close(&capture->port);
    }
    p4_free(capture->worker[0].p4); /* before EAL frees its memory */
    rte_eal_cleanup();
    return status;
}

int main(int argc, char **argv) {
    static struct capture capture = {.files = {.lock = PTHREAD_MUTEX_INITIALIZER}};
    struct paths paths = {NULL, NULL, NULL};
    struct fault fault;
    const int read = options_read(&capture.options, argc, argv, &fault);
    if (read != 0) {
        return read > 0 ? EXIT_OK : print_error(&fault, EXIT_USAGE);
    }
    if (make_paths(&paths, &capture.options, &fault) != 0) {
        return print_error(&fault, EXIT_USAGE);
    }
    handle_signals();
    capture.files.preallocate = capture.options.preallocate;
    capture.files.largest = capture.options.rotate_bytes;
    capture.worker = aligned_alloc(64, OPTIONS_QUEUES * sizeof *capture.worker);
    if (!capture.worker) {
        fail(&fault, "out of memory");
        return print_error(&fault, EXIT_FAILED);
    }
    memset(capture.worker, 0, OPTIONS_QUEUES * sizeof *capture.worker);
    const int status = open_and_run(&capture, &paths);
    if (capture.filters) {
        pcap_freecode(&capture.filter);
    }
    for (unsigned queue = 0; queue < capture.options.queues; ++queue) {
        free(capture.worker[queue].joined);
    }
    free(capture.worker);
    files_free(&capture.files);
    free(paths.accounts);
    free(paths.heartbeat);
    free(paths.stem);
    return status;
}
