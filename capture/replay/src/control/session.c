#include "control/session.h"

#include <inttypes.h>
#include <rte_eal.h>
#include <rte_launch.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "control/counters.h"
#include "control/report.h"
#include "engine/lead.h"
#include "files/load.h"
#include "files/save.h"

#define MB ((uint64_t)1024 * 1024)
#define BASE_MB 64          /* EAL, queues and drivers */
#define SOON_NS 10000000LL  /* delay of a run that begins as soon as possible */
#define LINK_NS 100000000LL /* between checks of the links */
#define POLLING_LCORE 1
#define MESSAGES_MAX 4 /* control messages reported by an update; updates are at most about 5 ms apart */

static int64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t realtime_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Reads the number after `prefix` from a file of /proc or /sys. Returns 0 if there is none. */
static uint64_t read_kernel_number(const char *path, const char *prefix) {
    char line[128];
    uint64_t value = 0;
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, prefix, strlen(prefix)) == 0) {
            value = strtoull(line + strlen(prefix), NULL, 10);
            break;
        }
    }
    if (file) {
        fclose(file);
    }
    return value;
}

/* Returns the available memory in normal pages, in bytes. */
static uint64_t available_bytes(void) { return read_kernel_number("/proc/meminfo", "MemAvailable:") * 1024; }

/* Returns the free memory in huge pages of both sizes, in bytes. */
static uint64_t huge_bytes(void) {
    const char *const directory = "/sys/kernel/mm/hugepages/hugepages-";
    uint64_t bytes = 0;
    for (uint64_t kib = 2048; kib <= 1048576; kib *= 512) {
        char path[96];
        snprintf(path, sizeof path, "%s%" PRIu64 "kB/free_hugepages", directory, kib);
        bytes += read_kernel_number(path, "") * kib * 1024;
    }
    return bytes;
}

/* Returns the memory of a pool, in bytes. With normal pages, an mbuf lies within a page or starts at a page
 * boundary. */
static uint64_t pool_bytes(const struct options *options, uint64_t mbufs) {
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t mbuf_bytes = rte_mempool_calc_obj_size(
        (uint32_t)sizeof(struct rte_mbuf) + RTE_PKTMBUF_HEADROOM + options->max_frame, 0, NULL);
    if (options->eal.huge) {
        return mbufs * mbuf_bytes;
    }
    return mbuf_bytes <= page ? (mbufs / (page / mbuf_bytes) + 1) * page
                              : mbufs * ((mbuf_bytes + page - 1) / page) * page;
}

int session_check_memory(struct session *session, struct fault *fault) {
    struct options *options = &session->options;
    struct memory *memory = &session->memory;
    const uint64_t copies = options->tag == TAG_NONE ? 1 : 2;
    memory->mbufs = options->packets * copies + ports_mbuf_count(options);
    memory->mbuf_bytes = pool_bytes(options, memory->mbufs) + BASE_MB * MB;
    const uint64_t lists = options->bridge ? 2 : 1;
    memory->packet_bytes =
        options->packets * (lists * sizeof(struct packet) + sizeof(struct rte_mbuf *) + sizeof(struct entry));
    memory->departure_bytes =
        options->departures * (sizeof(struct departure) + sizeof(int64_t)); /* and errors */
    memory->available_bytes = available_bytes();
    if (options->eal.memory_mb == 0) {
        options->eal.memory_mb = (unsigned)(memory->mbuf_bytes / MB + 1);
    }
    const uint64_t list_bytes = memory->packet_bytes + memory->departure_bytes;
    const uint64_t eal_bytes = options->eal.memory_mb * MB;
    memory->total_bytes = eal_bytes + list_bytes;
    if (memory->mbufs > UINT32_MAX / 2) {
        return fail(fault, "--packets %" PRIu64 ": too many; lower it", options->packets);
    }
    if (options->eal.huge && eal_bytes > huge_bytes()) {
        return fail(fault,
                    "%" PRIu64 " packets of %u bytes need %" PRIu64 " MB of huge pages, %" PRIu64
                    " MB are free; lower --packets, or raise vm.nr_hugepages",
                    options->packets, options->max_frame, eal_bytes / MB, huge_bytes() / MB);
    }
    const uint64_t needed = options->eal.huge ? list_bytes : memory->total_bytes;
    if (memory->available_bytes && needed > memory->available_bytes) {
        return fail(fault,
                    "%" PRIu64 " packets of %u bytes and %" PRIu64 " departures need %" PRIu64 " MB, %" PRIu64
                    " MB are available; lower --packets, --max-frame or --departures",
                    options->packets, options->max_frame, options->departures, needed / MB,
                    memory->available_bytes / MB);
    }
    fprintf(stderr,
            PROGRAM ": memory for %" PRIu64 " packets of up to %u bytes: %u MB of mbufs, %" PRIu64
                    " MB for the recording, %" PRIu64 " MB for departures\n",
            options->packets, options->max_frame, options->eal.memory_mb, memory->packet_bytes / MB + 1,
            memory->departure_bytes / MB + 1);
    return 0;
}

/* Sets and resets the priority: a missing permission is an error at the start, not in a run. */
static int check_priority(unsigned priority, struct fault *fault) {
    const int error = priority ? worker_set_priority(priority) : 0;
    if (error) {
        return fail(fault, "--priority %u: %s; it needs CAP_SYS_NICE", priority, strerror(error));
    }
    return priority ? worker_set_priority(0) : 0;
}

int session_open(struct session *session, struct fault *fault) {
    struct worker *worker = &session->worker;
    const struct options *options = &session->options;
    if (check_priority(options->priority, fault) != 0 ||
        recording_open(&session->recording, options->packets, options->bridge, fault) != 0 ||
        replay_open(&worker->replay, options, &session->ports, &session->time, fault) != 0 ||
        ports_open(&session->ports, options, (unsigned)session->memory.mbufs, fault) != 0 ||
        ports_start(&session->ports, options->bridge, fault) != 0 ||
        ports_begin_clocks(&session->ports, &session->time, fault) != 0 ||
        lead_measure_all(&session->ports, options, &session->time, fault) != 0) {
        return -1;
    }
    worker->bridge = (struct bridge){.options = options,
                                     .ports = &session->ports,
                                     .time = &session->time,
                                     .recording = &session->recording};
    if (options->in_band) {
        if (inband_open(&session->inband, &session->ports, fault) != 0) {
            return -1;
        }
        worker->bridge.inband = &session->inband;
    }
    /* The first correction is made after a whole period: an earlier one would be too large, because it
     * applies until the next correction. */
    session->disciplined_ns = monotonic_ns();
    worker->forwards = options->bridge;
    worker->spin = options->spin;
    worker->priority = options->priority;
    if (rte_eal_remote_launch(worker_run, worker, POLLING_LCORE) != 0) {
        return fail(fault, "cannot start the polling thread");
    }
    counters_read_all(session, session->counters_first);
    return 0;
}

void session_close(struct session *session) {
    if (rte_eal_get_lcore_state(POLLING_LCORE) == RUNNING) {
        session->worker.stop_reason = END_STOP;
        worker_request(&session->worker, REQUEST_END);
        rte_eal_wait_lcore(POLLING_LCORE);
    }
    replay_close(&session->worker.replay);
    recording_close(&session->recording);
    ports_close(&session->ports);
}

/* A recording or run is active until its end is reported: the next one would replace its results. */
static int require_idle(const struct session *session, struct fault *fault) {
    static const char *const activities[] = {"", "a recording", "a run"};
    const enum activity activity = session->activity;
    return activity == ACTIVITY_IDLE ? 0 : fail(fault, "%s is active; stop it first", activities[activity]);
}

static int require_empty(const struct session *session, struct fault *fault) {
    const uint64_t packets = recording_packets(&session->recording);
    return packets == 0 ? require_idle(session, fault)
                        : fail(fault, "the recording has %" PRIu64 " packets; clear it first", packets);
}

static int begin_recording(struct session *session, const struct command *command, struct fault *fault) {
    struct worker *worker = &session->worker;
    if (!session->options.bridge) {
        return fail(fault, "only a bridge records; use --bridge");
    }
    if (require_idle(session, fault) != 0 || require_empty(session, fault) != 0) {
        return -1;
    }
    if (command->until_ns && command->until_ns <= realtime_ns()) {
        return fail(fault, "record: the end is in the past");
    }
    worker->from_ns = command->from_ns;
    worker->until_ns = command->until_ns;
    worker->window_ns = command->window_ns;
    counters_read_before(session);
    worker_request(worker, REQUEST_RECORD);
    session->activity = ACTIVITY_RECORDING;
    report_recording(session);
    return 0;
}

static int load(struct session *session, const char *path, struct fault *fault) {
    struct loaded loaded;
    if (require_empty(session, fault) != 0 ||
        load_file(&session->recording, path, &session->ports, &session->options, &loaded, fault) != 0) {
        return -1;
    }
    report_loaded(session, path, &loaded);
    return 0;
}

static int start_run(struct session *session, const struct command *command, struct fault *fault) {
    struct replay *replay = &session->worker.replay;
    if (require_idle(session, fault) != 0 || ports_check_links(&session->ports, fault) != 0) {
        return -1;
    }
    replay->departures = 0;
    for (unsigned i = 0; i < session->ports.count; ++i) {
        port_find_longest(&session->ports.port[i]);
    }
    if (plan_build(&replay->plan, &session->recording, &session->ports, &session->options, command->speed_ppm,
                   fault) != 0 ||
        replay_prepare(replay, command->loops, command->speed_ppm, fault) != 0) {
        return -1;
    }
    counters_read_before(session);
    const int64_t now = realtime_ns(); /* building the plan and reading counters took time */
    const int64_t soon = now + SOON_NS + ports_largest_lead_ns(&session->ports);
    if (command->at_ns && command->at_ns <= now) {
        return fail(fault, "run: AT_NS is %" PRId64 " ns in the past", now - command->at_ns);
    }
    if (replay_start_at(replay, command->at_ns ? command->at_ns : soon, fault) != 0) {
        return -1;
    }
    timebase_begin_run(&session->time);
    ++session->runs;
    session->running_reported = false;
    session->activity = ACTIVITY_RUNNING;
    report_scheduled(session);
    worker_request(&session->worker, REQUEST_RUN);
    return 0;
}

static int save(struct session *session, const char *path, struct fault *fault) {
    if (require_idle(session, fault) != 0) {
        return -1;
    }
    if (recording_packets(&session->recording) == 0) {
        return fail(fault, "nothing to save; load a file or record first");
    }
    if (save_recording(&session->recording, &session->ports, path, fault) != 0) {
        return -1;
    }
    report_saved(session, "save", path, recording_packets(&session->recording));
    return 0;
}

static int save_run_departures(struct session *session, const char *path, struct fault *fault) {
    const struct replay *replay = &session->worker.replay;
    if (require_idle(session, fault) != 0) {
        return -1;
    }
    if (replay->departures == 0) {
        return fail(fault, "no run has ended since the recording was changed");
    }
    if (save_departures(replay, path, fault) != 0) {
        return -1;
    }
    report_saved(session, "departures", path, replay->departures);
    return 0;
}

static int hex_value(char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; }

/* Sends a frame with the response to a control message. */
static int answer(struct session *session, const struct command *command, struct fault *fault) {
    struct worker *worker = &session->worker;
    const uint16_t bytes = (uint16_t)(strlen(command->hex) / 2);
    if (!session->options.in_band || command->port >= session->ports.count) {
        return fail(fault, "answer: port %u does not exist, or --in-band is not set", command->port);
    }
    worker->send_port = &session->ports.port[command->port];
    worker->send_mbuf = rte_pktmbuf_alloc(session->ports.pool);
    uint8_t *to = worker->send_mbuf ? (uint8_t *)rte_pktmbuf_append(worker->send_mbuf, bytes) : NULL;
    for (unsigned i = 0; to && i < bytes; ++i) {
        to[i] = (uint8_t)(hex_value(command->hex[2 * i]) << 4 | hex_value(command->hex[2 * i + 1]));
    }
    if (to && port_fits(worker->send_port, worker->send_mbuf)) {
        worker_request(worker, REQUEST_SEND);
    }
    const bool sent = to && !worker->send_mbuf && !worker->send_failed;
    rte_pktmbuf_free(worker->send_mbuf);
    worker->send_mbuf = NULL;
    if (!sent) {
        return fail(fault, "answer: the frame cannot be sent now");
    }
    ++session->answered[command->port];
    report_answered(session);
    return 0;
}

static int clear(struct session *session, struct fault *fault) {
    if (require_idle(session, fault) != 0) {
        return -1;
    }
    plan_free(&session->worker.replay.plan);
    session->worker.replay.departures = 0;
    recording_clear(&session->recording);
    report_cleared(session);
    return 0;
}

static void report_end(struct session *session) {
    const enum activity before = session->activity;
    /* Read before `began`, so that `running` is reported before `done` even if a run begins and ends in
     * between. */
    const bool ended = session->worker.activity == ACTIVITY_IDLE;
    if (before == ACTIVITY_RUNNING && session->worker.began && !session->running_reported) {
        session->running_reported = true;
        report_running(session);
    }
    if (before != ACTIVITY_IDLE && ended) {
        session->activity = ACTIVITY_IDLE;
        timebase_measure(&session->time);
        counters_read_after(session);
        if (before == ACTIVITY_RECORDING) {
            recording_merge(&session->recording); /* the polling thread no longer uses it */
            report_recorded(session);
        } else {
            report_done(session);
        }
    }
}

void session_stop(struct session *session, enum end_reason reason) {
    if (session->worker.activity != ACTIVITY_IDLE) {
        session->worker.stop_reason = reason;
        worker_request(&session->worker, REQUEST_STOP);
    }
    report_end(session);
}

/* A `stop` that arrives after the end is not an error: its sender may no longer wait for the reply, and the
 * next command would receive the error. */
static void stop(struct session *session) {
    if (session->activity == ACTIVITY_IDLE) {
        report_stopped(session);
    } else {
        session_stop(session, END_STOP);
    }
}

int session_execute(struct session *session, const struct command *command, struct fault *fault) {
    if (command->kind !=
        COMMAND_STOP) { /* `stop` reports the end itself, and is not an error if the run has just ended */
        report_end(session);
    }
    switch (command->kind) {
        case COMMAND_RECORD:
        case COMMAND_ROLLING:
            return begin_recording(session, command, fault);
        case COMMAND_LOAD:
            return load(session, command->path, fault);
        case COMMAND_STOP:
            stop(session);
            return 0;
        case COMMAND_CLEAR:
            return clear(session, fault);
        case COMMAND_RUN:
            return start_run(session, command, fault);
        case COMMAND_STATUS:
            worker_request(&session->worker, REQUEST_COUNT);
            counters_count_drops(session);
            report_status(session);
            return 0;
        case COMMAND_SAVE:
            return save(session, command->path, fault);
        case COMMAND_DEPARTURES:
            return save_run_departures(session, command->path, fault);
        case COMMAND_ANSWER:
            return answer(session, command, fault);
        default:
            return 1;
    }
}

/* Reports control messages: a limited number, so that a peer that sends many does not delay commands. */
static void report_messages(struct session *session) {
    const struct inband_frame *frame;
    for (unsigned i = 0; i < MESSAGES_MAX && (frame = inband_next(&session->inband)); ++i) {
        report_control(session, frame);
        inband_release(&session->inband);
    }
}

int session_update(struct session *session, struct fault *fault) {
    const int64_t now = monotonic_ns();
    int status = 0;
    if (now - session->disciplined_ns >= TIMEBASE_PERIOD_NS) {
        session->disciplined_ns = now;
        timebase_discipline(&session->time);
        ports_discipline(&session->ports, realtime_ns());
    }
    if (now - session->checked_ns >= LINK_NS) {
        session->checked_ns = now;
        status = ports_check_links(&session->ports, fault);
        if (status != 0) {
            session_stop(session, END_LINK_DOWN);
        }
    }
    report_end(session);
    report_messages(session);
    return status;
}
