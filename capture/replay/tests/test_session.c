/* Tests that the end of a recording or a run is reported exactly once, before the result of the next command.
 * The command is executed after the polling thread has finished and before session_update. */
#include <inttypes.h>
#include <rte_eal.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "common/check.h"
#include "control/report.h"

#define PACKETS "100" /* net_null receives packets without end: a recording ends when it is full */
#define YIELDS 100000000

static char *text; /* output of the session */
static size_t text_size, checked;

static int execute(struct session *session, const char *line) {
    char copy[64];
    struct command command;
    struct fault fault = {""};
    snprintf(copy, sizeof copy, "%s", line);
    CHECK(command_parse(&command, copy, &fault) == 0);
    return session_execute(session, &command, &fault);
}

static void wait_until_idle(const struct session *session) {
    for (unsigned i = 0; session->worker.activity != ACTIVITY_IDLE; ++i) {
        CHECK(i < YIELDS);
        sched_yield();
    }
}

/* Checks the names of the events since the last call. */
static void expect(const char *names) {
    static const char key[] = "{\"event\": \"";
    char found[256] = "";
    for (const char *line = text + checked; *line; line = strchr(line, '\n') + 1) {
        CHECK(strncmp(line, key, sizeof key - 1) == 0);
        const char *name = line + sizeof key - 1;
        const size_t used = strlen(found);
        snprintf(found + used, sizeof found - used, "%s%.*s", used ? " " : "", (int)strcspn(name, "\""),
                 name);
    }
    if (strcmp(found, names) != 0) {
        fprintf(stderr, "expected: %s\nfound: %s\n", names, found);
        exit(1);
    }
    checked = text_size;
}

static void test_recorded_precedes_the_next_command(struct session *session) {
    CHECK(execute(session, "record 0 0") == 0);
    wait_until_idle(session);
    CHECK(execute(session, "clear") == 0);
    expect("recording recorded cleared");
    CHECK(strstr(text, "\"packets\": " PACKETS ","));

    CHECK(execute(session, "record 0 0") == 0);
    wait_until_idle(session);
    CHECK(execute(session, "status") == 0);
    expect("recording recorded status");
    CHECK(execute(session, "clear") == 0);

    CHECK(execute(session, "record 0 0") == 0);
    wait_until_idle(session);
    CHECK(execute(session, "run 0 1 1000000") == 0);
    wait_until_idle(session);
    CHECK(execute(session, "stop") == 0);
    expect("cleared recording recorded scheduled running done");
}

/* Pretends that counters were lower at the start of the recording, the run and the program. */
static void test_packets_lost_before_reception_are_reported(struct session *session) {
    CHECK(execute(session, "clear") == 0);
    CHECK(execute(session, "record 0 0") == 0);
    session->counters_before[0].missed -= 3;
    session->counters_before[1].no_mbuf -= 2;
    wait_until_idle(session);
    CHECK(execute(session, "run 0 1 1000000") == 0);
    session->counters_before[1].missed -= 5;
    wait_until_idle(session);
    session->counters_first[0].no_mbuf -= 7;
    CHECK(execute(session, "status") == 0);
    const char *recorded = strstr(text + checked, "\"recorded\""), *done = strstr(text + checked, "\"done\"");
    CHECK(strstr(recorded, "\"net_null0\", \"reception\": {\"missed\": 3, \"no_mbuf\": 0}"));
    CHECK(strstr(recorded, "\"net_null1\", \"reception\": {\"missed\": 0, \"no_mbuf\": 2}"));
    CHECK(strstr(done, "\"reception\": {\"missed\": 5, \"no_mbuf\": 0}"));
    CHECK(strstr(done, "\"reception\": {\"missed\": 0, \"no_mbuf\": 7}"));
    session->counters_first[0].no_mbuf += 7;
    expect("cleared recording recorded scheduled running done status");
}

/* The first port pretends to be an interface that received more packets than the bridge. */
static void test_packets_missed_by_the_bridge_are_reported(struct session *session) {
    CHECK(execute(session, "run 0 1 1000000") == 0);
    snprintf(session->ports.port[0].interface, sizeof session->ports.port[0].interface, "lo");
    session->counters_before[0].interface.known = true;
    session->counters_before[0].received += 1ULL << 40;
    session->counters_before[0].kernel_dropped -= 4;
    wait_until_idle(session);
    CHECK(execute(session, "stop") == 0);
    session->ports.port[0].interface[0] = 0;
    const char *done = strstr(text + checked, "\"done\"");
    CHECK(done && strstr(done, "\"kernel_dropped\": 4, \"not_received\": "));
    CHECK(strtoull(strstr(done, "\"not_received\": ") + 16, NULL, 10) > 1ULL << 39);
    expect("scheduled running done");
}

/* Returns the number after a key in the part of an event about the second port. */
static uint64_t second_port_number(const char *event, const char *key) {
    const char *port = strstr(event, "{\"name\": \"net_null1\"");
    CHECK(port && strstr(port, key));
    return strtoull(strstr(port, key) + strlen(key), NULL, 10);
}

/* Executes a command twice between the start and the first packet of a run. A run that begins too early,
 * because this program is delayed, is repeated with more time. */
static void execute_twice_before_a_run(struct session *session, const char *line) {
    for (int64_t ahead_ns = 20000000;; ahead_ns *= 4) {
        char run[64];
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        snprintf(run, sizeof run, "run %" PRId64 " 1 1000000",
                 (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + ahead_ns);
        if (execute(session, run) == 0 && execute(session, line) == 0 && execute(session, line) == 0 &&
            !session->worker.began) {
            return;
        }
        wait_until_idle(session);
        CHECK(execute(session, "stop") == 0);
        checked = text_size;
    }
}

static void test_other_frames_during_a_run_are_counted(struct session *session) {
    static const char frame[] = "answer 1 ffffffffffff02000000000188b5";
    CHECK(execute(session, frame) == 0);
    expect("answered");
    execute_twice_before_a_run(session, frame);
    wait_until_idle(session);
    CHECK(execute(session, "stop") == 0);
    const char *done = strstr(text + checked, "\"done\"");
    const uint64_t answered = second_port_number(done, "\"answered\": ");
    const uint64_t others = answered + second_port_number(done, "\"forwarded\": ");
    CHECK(answered == 2);
    CHECK(second_port_number(done, "\"driver_sent\": ") ==
          others + second_port_number(done, "\"queues\": ["));
    CHECK(second_port_number(done, "\"forwarded\": ") > 0); /* net_null receives until the run begins */
    CHECK(strstr(done, "\"answered\": 0, \"forwarded\": "));
    expect("scheduled answered answered running done");
}

/* The clock is wrong by 5 ms in the middle of a run, then at the end of another one. */
static void test_done_contains_the_largest_error_of_the_clock_in_the_run(struct session *session) {
    static const char key[] = "\"largest_error_ns\": ";
    struct timebase *time = &session->time;
    for (unsigned run = 0; run < 2; ++run) {
        time->largest_error_ns = INT64_MAX; /* of another run */
        CHECK(execute(session, "run 0 1 1000000") == 0);
        if (run == 0) {
            time->clock.line.ns += 5000000;
            timebase_discipline(time);
            time->clock.line.ns -= 5000000;
            timebase_discipline(time);
        }
        wait_until_idle(session);
        time->clock.line.ns += run ? 5000000 : 0; /* after the latest correction */
        CHECK(execute(session, "stop") == 0);
        time->clock.line.ns -= run ? 5000000 : 0;
        const char *done = strstr(text + checked, "\"done\"");
        CHECK(done && strstr(done, key));
        const int64_t largest = strtoll(strstr(done, key) + strlen(key), NULL, 10);
        CHECK(largest > 4000000 && largest < INT64_MAX);
        expect("scheduled running done");
    }
}

static void test_done_precedes_the_next_command(struct session *session) {
    CHECK(execute(session, "run 0 1 1000000") == 0);
    wait_until_idle(session);
    CHECK(execute(session, "run 0 2 1000000") == 0);
    wait_until_idle(session);
    CHECK(execute(session, "record 0 0") == -1); /* the recording is not empty */
    expect("scheduled running done scheduled running done");

    CHECK(execute(session, "run 0 1 1000000") == 0);
    wait_until_idle(session);
    CHECK(execute(session, "stop") == 0);
    expect("scheduled running done");
    CHECK(execute(session, "stop") == 0);
    expect("stopped");

    CHECK(execute(session, "run 0 1 1000000") == 0);
    wait_until_idle(session);
    CHECK(execute(session, "clear") == 0);
    expect("scheduled running done cleared");
}

static void test_a_single_tx_measures_the_lead_of_all_ports(void) {
    static char *words[] = {
        "test_session", "--vdev",         "a,b", "--tx", "a", "--tx", "b", "--tx", "c", "--pace",
        "single",       "--measure-lead", "tx",  NULL};
    struct options options;
    struct fault fault = {""};
    CHECK(options_read(&options, sizeof words / sizeof *words - 1, words, &fault) == 0);
    CHECK(options.ports == 3 && options.lead_sources == 3);
    CHECK(!options.lead_from[0] && !options.lead_from[1] && !options.lead_from[2]);
}

static void open_session(struct session *session) {
    static char bridge[] = "net_null0,net_null1"; /* options_read changes it */
    static char *words[] = {"test_session", "--vdev",    "net_null0", "--vdev", "net_null1",
                            "--bridge",     bridge,      "--packets", PACKETS,  "--departures",
                            "1000",         "--in-band", NULL};
    struct fault fault = {""};
    struct options *options = &session->options;
    int status = options_read(options, sizeof words / sizeof *words - 1, words, &fault);
    if (status == 0) {
        status = session_check_memory(session, &fault);
    }
    options->eal.program = "test_session";
    options->eal.threads = 1;
    if (status != 0 || eal_start_threads(&options->eal, &fault) != 0 || session_open(session, &fault) != 0) {
        fprintf(stderr, "%s\n", fault.text);
        exit(1);
    }
}

int main(void) {
    static struct session session;
    session.out = open_memstream(&text, &text_size);
    CHECK(session.out && fflush(session.out) == 0);
    test_a_single_tx_measures_the_lead_of_all_ports();
    open_session(&session);
    test_recorded_precedes_the_next_command(&session);
    test_packets_lost_before_reception_are_reported(&session);
    test_packets_missed_by_the_bridge_are_reported(&session);
    test_other_frames_during_a_run_are_counted(&session);
    test_done_contains_the_largest_error_of_the_clock_in_the_run(&session);
    test_done_precedes_the_next_command(&session);
    session_close(&session);
    rte_eal_cleanup();
    fclose(session.out);
    free(text);
    puts("test_session: ok");
    return 0;
}
