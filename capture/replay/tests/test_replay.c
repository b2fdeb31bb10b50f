/* Tests of the replay on a simulated clock: departures, accounting, and the order and content of sent
 * packets. With arguments: test_replay trials DIRECTORY writes two trials with an injected schedule for
 * `acapella kappa`.
 */
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/summary.h"
#include "files/save.h"
#include "ring_world.h"

#define GAP_NS 10000

/* The packets that a receiver expects and has received. */
struct expected {
    struct world *world;
    uint32_t received;
    uint32_t packets; /* of a loop */
    uint32_t bytes;
    int64_t latest_ns;
};

static void expect_in_order(void *user, unsigned port, struct rte_mbuf *mbuf, int64_t now_ns) {
    struct expected *expected = user;
    const struct replay *replay = &expected->world->replay;
    const uint32_t packet = expected->received % expected->packets;
    const uint32_t loop = expected->received / expected->packets;
    CHECK(port == replay->plan.entry[packet].port);
    CHECK(world_is_packet(mbuf, packet, expected->bytes + packet % 7));
    CHECK(now_ns == replay_requested(replay, loop, packet));
    CHECK(now_ns >= expected->latest_ns);
    expected->latest_ns = now_ns;
    ++expected->received;
    rte_pktmbuf_free(mbuf);
}

/* Adds packets with gaps of GAP_NS and a jitter of up to `jitter_ns`. */
static void add_jittered(struct world *world, uint32_t packets, int jitter_ns, unsigned seed) {
    for (uint32_t i = 0; i < packets; ++i) {
        const int64_t jitter = jitter_ns ? rand_r(&seed) % (2 * jitter_ns + 1) - jitter_ns : 0;
        world_add(world, i, 60 + i % 7, (int64_t)i * GAP_NS + (i ? jitter : 0), (uint16_t)(i % 2), true);
    }
}

static struct summary summary_of(const struct world *world) {
    struct summary summary;
    summarize(&summary, &world->replay);
    CHECK(summary.balanced && summary.monotone);
    return summary;
}

static void test_packets_are_sent_as_recorded_at_their_times(void) {
    static const uint64_t speeds[] = {1000000, 2000000, 333333, 1};
    for (unsigned i = 0; i < sizeof speeds / sizeof *speeds; ++i) {
        struct world world = {.options = {.late_ns = 0}};
        world_open(&world);
        add_jittered(&world, 1000, 1000, i + 1);
        struct expected expected = {.world = &world, .packets = 1000, .bytes = 60};
        world_start(&world, 3, speeds[i]);
        world_run(&world, expect_in_order, &expected, 0);
        const struct summary summary = summary_of(&world);
        CHECK(world.replay.end_reason == END_COMPLETE && expected.received == 3000);
        CHECK(summary.outcome[OUTCOME_SENT] == 3000 && summary.sent_late == 0);
        CHECK(summary.measured && summary.median_ns == 0 && summary.largest_ns == 0);
        world_close(&world);
    }
}

static void test_a_speed_of_two_halves_each_gap(void) {
    struct world world = {0};
    world_open(&world);
    add_jittered(&world, 10, 0, 1);
    world_start(&world, 2, 2000000);
    for (uint32_t i = 0; i < 10; ++i) {
        CHECK(replay_requested(&world.replay, 0, i) == START_NS + (int64_t)i * GAP_NS / 2);
        CHECK(replay_requested(&world.replay, 1, i) == START_NS + (int64_t)(i + 10) * GAP_NS / 2);
    }
    world_close(&world);
}

static void test_packets_for_a_full_ring_are_retried_then_counted(void) {
    struct world world = {.options = {.retry_ns = 5000}};
    world_open(&world);
    for (uint32_t i = 0; i < 3000; ++i) {
        world_add(&world, i, 60, (int64_t)(i / 8) * GAP_NS, 0, i % 8 == 0);
    }
    world_start(&world, 1, 1000000);
    world_run(&world, NULL, NULL, 1000);
    const struct summary summary = summary_of(&world);
    CHECK(summary.outcome[OUTCOME_SENT] == RING_SIZE - 1);
    CHECK(summary.outcome[OUTCOME_RING_FULL] == 3000 - (RING_SIZE - 1));
    CHECK(world.replay.departed[2999].retries == 6); /* at 0, 1, ... 5 us */
    world_drain(&world, NULL, NULL);
    world_close(&world);
}

/* Removes the first packets from the ring only after some retries. */
static void test_a_packet_taken_late_has_the_time_of_its_departure(void) {
    struct world world = {.options = {.retry_ns = 100000, .late_ns = 1500}};
    world_open(&world);
    for (uint32_t i = 0; i < RING_SIZE; ++i) {
        world_add(&world, i, 60, (int64_t)i * GAP_NS, 0, true);
    }
    world_start(&world, 1, 1000000);
    struct replay *replay = &world.replay;
    while (replay->retries < 3) {
        world.time.simulated_ns += replay->retries ? 1000 : replay->due_ns - world.time.simulated_ns;
        replay_poll(replay);
    }
    world_drain(&world, NULL, NULL);
    world.time.simulated_ns += 1000;
    CHECK(!replay_poll(replay));
    const struct departure *last = &replay->departed[RING_SIZE - 1];
    CHECK(last->outcome == OUTCOME_SENT && last->retries == 3);
    CHECK(last->ns == replay_requested(replay, 0, RING_SIZE - 1) + 3000);
    const struct summary summary = summary_of(&world);
    CHECK(summary.sent_late == 1 && summary.retries == 3 && summary.largest_ns == 3000);
    world_drain(&world, NULL, NULL);
    world_close(&world);
}

static int compare(const void *a, const void *b) {
    const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

static void test_percentiles_of_errors_match_sorted_errors(void) {
    enum { PACKETS = 999 };
    int64_t error[PACKETS];
    struct world world = {0};
    unsigned seed = 3;
    world_open(&world);
    add_jittered(&world, PACKETS, 0, 1);
    world_start(&world, 1, 1000000);
    world_run(&world, NULL, NULL, 0);
    for (uint32_t i = 0; i < PACKETS; ++i) {
        error[i] = rand_r(&seed) % 300 - 200;
        world.replay.departed[i].ns = replay_requested(&world.replay, 0, i) + error[i];
    }
    struct summary summary;
    summarize(&summary, &world.replay);
    qsort(error, PACKETS, sizeof *error, compare);
    CHECK(summary.measured && summary.median_ns == error[499] && summary.p99_ns == error[989]);
    CHECK(summary.largest_ns == -error[0]);
    world_drain(&world, NULL, NULL);
    world_close(&world);
}

static void test_packets_that_cannot_be_sent_are_rejected_before_the_start(void) {
    struct world world = {.options = {.max_frame = 512}};
    world_open(&world);
    world.ports.port[0].longest = 200;
    world_add(&world, 0, 60, 0, 0, true);
    world_add(&world, 1, 201, 0, 0, false);
    world_add(&world, 2, 3, 0, 0, false);
    world_add(&world, 3, 200, 0, 0, false);
    world_start(&world, 1, 1000000);
    const struct plan *plan = &world.replay.plan;
    CHECK(plan->rejected[OUTCOME_TOO_LONG] == 1 && plan->rejected[OUTCOME_TOO_SHORT] == 1);
    CHECK(plan->entry[0].count == 1 && plan->entry[3].count == 1);
    world_run(&world, NULL, NULL, 1);
    const struct summary summary = summary_of(&world);
    CHECK(summary.outcome[OUTCOME_SENT] == 2 && summary.outcome[OUTCOME_TOO_LONG] == 1 &&
          summary.outcome[OUTCOME_TOO_SHORT] == 1);
    world_drain(&world, NULL, NULL);
    world_close(&world);
}

static void test_late_packets_are_dropped_on_request(void) {
    struct world world = {.options = {.drop_late_ns = GAP_NS}};
    world_open(&world);
    add_jittered(&world, 10, 0, 1);
    world_start(&world, 1, 1000000);
    world.time.simulated_ns = START_NS + 5 * GAP_NS; /* packets 0 to 3 are more than a gap late */
    world_run(&world, NULL, NULL, 1);
    const struct summary summary = summary_of(&world);
    CHECK(summary.outcome[OUTCOME_LATE] == 4 && summary.outcome[OUTCOME_SENT] == 6);
    CHECK(world.replay.largest_gap_ns == 5 * GAP_NS + 1000000);
    world_drain(&world, NULL, NULL);
    world_close(&world);
}

/* Sleeps as the polling thread does, and wakes up 3 us late once. */
static void test_sleep_between_departures_is_not_a_gap(void) {
    const int64_t wake_ns = GAP_NS / 4, longest_ns = GAP_NS / 2, overslept_ns = 3000;
    struct world world = {.options = {.wake_ns = (uint64_t)wake_ns}};
    world_open(&world);
    add_jittered(&world, 10, 0, 1);
    world_start(&world, 1, 1000000);
    struct replay *replay = &world.replay;
    world.time.simulated_ns = replay->due_ns;
    replay_begin(replay);
    while (replay_poll(replay)) {
        const int64_t started_ns = world.time.simulated_ns;
        CHECK(replay_sleep_ns(replay, longest_ns) == longest_ns);
        world.time.simulated_ns += longest_ns + (replay->at == 5 ? overslept_ns : 0);
        CHECK(replay_poll(replay));
        const int64_t sleep_ns = replay_sleep_ns(replay, longest_ns);
        CHECK(sleep_ns == (replay->at == 5 ? 0 : GAP_NS - longest_ns - wake_ns));
        world.time.simulated_ns += sleep_ns;
        CHECK(replay_poll(replay) && replay_sleep_ns(replay, longest_ns) == 0);
        world.time.simulated_ns = started_ns + GAP_NS;
    }
    const struct summary summary = summary_of(&world);
    CHECK(summary.outcome[OUTCOME_SENT] == 10 && summary.largest_ns == 0);
    CHECK(replay->largest_gap_ns == overslept_ns);
    world_drain(&world, NULL, NULL);
    world_close(&world);
}

static void test_bursts_are_sent_together_or_packet_by_packet(void) {
    for (int single = 0; single < 2; ++single) {
        struct world world = {.options = {.pacing = single ? PACING_SINGLE : PACING_BURSTS, .burst = 3}};
        world_open(&world);
        for (uint32_t i = 0; i < 8; ++i) {
            world_add(&world, i, 60, (int64_t)(i / 4) * GAP_NS, 0, i % 4 == 0);
        }
        world_start(&world, 1, 1000000);
        world_run(&world, NULL, NULL, 1);
        for (uint32_t i = 0; i < 8; ++i) {
            const struct departure *departed = &world.replay.departed[i];
            const bool alone = single || i % 4 == 3; /* bursts of 3 and 1 */
            CHECK(!!(departed->flags & DEPARTED_OWN_STAMP) == alone);
            CHECK(!!(departed->flags & DEPARTED_BURST_FIRST) == (single || i % 4 == 0 || i % 4 == 3));
        }
        summary_of(&world);
        world_drain(&world, NULL, NULL);
        world_close(&world);
    }
}

static void test_a_stopped_run_accounts_for_packets_not_sent(void) {
    static const enum end_reason reasons[] = {END_STOP, END_CLOCK_STEP, END_LINK_DOWN};
    for (unsigned i = 0; i < 3; ++i) {
        struct world world = {0};
        world_open(&world);
        add_jittered(&world, 10, 0, 1);
        world_start(&world, 1, 1000000);
        for (int packet = 0; packet < 4; ++packet) {
            world.time.simulated_ns = world.replay.due_ns;
            CHECK(replay_poll(&world.replay));
        }
        if (reasons[i] == END_CLOCK_STEP) {
            world.time.steps = 1;
        } else {
            replay_end(&world.replay, reasons[i]);
        }
        CHECK(!replay_poll(&world.replay) && world.replay.end_reason == reasons[i]);
        const struct summary summary = summary_of(&world);
        CHECK(summary.outcome[OUTCOME_SENT] == 4 && summary.outcome[OUTCOME_STOPPED] == 6);
        world_drain(&world, NULL, NULL);
        world_close(&world);
    }
}

/* Makes the kernel preempt this thread at least once: a child process that never sleeps uses the same CPUs.
 */
static void force_preemption(void) {
    struct rusage usage = {.ru_nivcsw = 0};
    const pid_t child = fork();
    CHECK(child >= 0);
    while (child == 0) {
        CHECK(getppid() != 1);
    }
    while (usage.ru_nivcsw == 0) {
        CHECK(getrusage(RUSAGE_THREAD, &usage) == 0);
    }
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
}

static void test_a_run_that_ends_before_it_begins_has_no_preemptions(void) {
    struct world world = {0};
    struct fault fault = {""};
    world_open(&world);
    add_jittered(&world, 10, 0, 1);
    world_start(&world, 1, 1000000);
    replay_end(&world.replay, END_STOP);
    force_preemption();
    CHECK(replay_start_at(&world.replay, START_NS, &fault) == 0);
    replay_end(&world.replay, END_STOP);
    CHECK(world.replay.preemptions == 0 && world.replay.end_reason == END_STOP);
    world_close(&world);
}

/* Packets of random bursts, sizes and ports; the receiver reads only from time to time, so that rings fill.
 */
struct unreliable {
    struct world *world;
    unsigned seed;
    uint32_t bytes[4096];
    uint64_t position[2]; /* by port, of the next departure */
    uint64_t received;
};

static void expect_sent_only(void *user, unsigned port, struct rte_mbuf *mbuf, int64_t now_ns) {
    struct unreliable *reader = user;
    const struct replay *replay = &reader->world->replay;
    uint64_t *at = &reader->position[port];
    (void)now_ns;
    for (;; ++*at) {
        CHECK(*at < replay->departures);
        const uint32_t packet = (uint32_t)(*at % replay->plan.packets);
        if (replay->plan.entry[packet].port == port && replay->departed[*at].outcome == OUTCOME_SENT) {
            CHECK(world_is_packet(mbuf, packet, reader->bytes[packet]));
            break;
        }
    }
    ++*at;
    ++reader->received;
    rte_pktmbuf_free(mbuf);
}

static void add_random(struct world *world, struct unreliable *reader, uint32_t packets) {
    int64_t at_ns = 0;
    uint16_t port = 0;
    for (uint32_t i = 0; i < packets; ++i) {
        const bool first = i == 0 || rand_r(&reader->seed) % 5 == 0;
        at_ns += first ? rand_r(&reader->seed) % 3000 : 0;
        port = first ? (uint16_t)(rand_r(&reader->seed) % 2) : port;
        reader->bytes[i] = 15 + (uint32_t)rand_r(&reader->seed) % 1500;
        world_add(world, i, reader->bytes[i], at_ns, port, first);
    }
}

static void test_every_packet_is_received_in_order_or_counted(void) {
    for (unsigned seed = 1; seed <= 8; ++seed) {
        static struct unreliable reader;
        struct world world = {
            .options = {.retry_ns = 2000, .pacing = seed % 2 ? PACING_BURSTS : PACING_SINGLE}};
        reader = (struct unreliable){.world = &world, .seed = seed};
        world_open(&world);
        add_random(&world, &reader, 4000);
        world_start(&world, 2, 500000 * seed);
        struct replay *replay = &world.replay;
        while (replay->end_reason == END_NONE) {
            const int64_t due = replay->due_ns, now = world.time.simulated_ns;
            world.time.simulated_ns = replay->retries ? now + 700 : due > now ? due : now;
            replay_poll(replay);
            if (rand_r(&reader.seed) % 2000 == 0) {
                world_drain(&world, expect_sent_only, &reader);
            }
        }
        world_drain(&world, expect_sent_only, &reader);
        const struct summary summary = summary_of(&world);
        CHECK(reader.received == summary.outcome[OUTCOME_SENT] && summary.outcome[OUTCOME_RING_FULL] > 0);
        CHECK(summary.outcome[OUTCOME_SENT] + summary.outcome[OUTCOME_RING_FULL] == 8000);
        world_close(&world);
    }
}

#define PACKETS_EACH 500 /* of a replayer */

/* The packets that arrived from two replayers; the number of a packet identifies its replayer. */
struct arrivals {
    const struct world *world;
    int64_t requested_ns; /* of the latest packet */
    unsigned count;
    uint32_t loops[2 * PACKETS_EACH]; /* by packet number: loops in which it has arrived */
};

static void check_arrival(void *user, unsigned port, struct rte_mbuf *mbuf, int64_t now_ns) {
    struct arrivals *arrivals = user;
    const uint32_t number = world_number(mbuf);
    (void)port;
    CHECK(number < 2 * PACKETS_EACH && world_is_packet(mbuf, number, 64));
    const struct replay *replay = &arrivals->world[number / PACKETS_EACH].replay;
    const int64_t requested_ns = replay_requested(replay, arrivals->loops[number]++, number % PACKETS_EACH);
    CHECK(now_ns == requested_ns && requested_ns >= arrivals->requested_ns);
    arrivals->requested_ns = requested_ns;
    ++arrivals->count;
    rte_pktmbuf_free(mbuf);
}

static void test_two_replayers_arrive_in_the_requested_order(void) {
    struct world world[2] = {{.options = {.ports = 1}}, {.options = {.ports = 1}}};
    struct arrivals arrivals = {.world = world};
    for (unsigned i = 0; i < 2; ++i) {
        unsigned seed = i + 1;
        world_open(&world[i]);
        for (uint32_t packet = 0; packet < PACKETS_EACH; ++packet) {
            const int64_t at_ns = (int64_t)packet * GAP_NS + rand_r(&seed) % GAP_NS;
            world_add(&world[i], i * PACKETS_EACH + packet, 64, at_ns, 0, true);
        }
        world_start(&world[i], 2, 1000000);
    }
    while (world[0].replay.end_reason == END_NONE || world[1].replay.end_reason == END_NONE) {
        const bool first_ended = world[0].replay.end_reason != END_NONE;
        const bool second_ended = world[1].replay.end_reason != END_NONE;
        const unsigned next =
            first_ended || (!second_ended && world[1].replay.due_ns < world[0].replay.due_ns);
        const int64_t due = world[next].replay.due_ns;
        world[0].time.simulated_ns = world[1].time.simulated_ns = due;
        replay_poll(&world[0].replay);
        world_drain(&world[0], check_arrival, &arrivals);
        replay_poll(&world[1].replay);
        world_drain(&world[1], check_arrival, &arrivals);
    }
    CHECK(arrivals.count == 4 * PACKETS_EACH);
    for (unsigned i = 0; i < 2; ++i) {
        const struct summary summary = summary_of(&world[i]);
        CHECK(summary.outcome[OUTCOME_SENT] == 1000 && summary.largest_ns == 0);
        world_close(&world[i]);
    }
}

/* A receiver that stores the packets, like a capture. */
struct capture {
    struct recording recording;
};

static void store_packet(void *user, unsigned port, struct rte_mbuf *mbuf, int64_t now_ns) {
    struct capture *capture = user;
    const struct packet packet = {.mbuf = mbuf, .ts_ns = now_ns, .port = (uint16_t)port, .first = true};
    recording_add(&capture->recording, &packet, TIMESTAMPS_FILE);
}

static void save(const struct world *world, const struct recording *recording, const char *directory,
                 const char *name) {
    struct fault fault = {""};
    char path[512];
    snprintf(path, sizeof path, "%s/%s.pcapng", directory, name);
    if (save_recording(recording, &world->ports, path, &fault) != 0) {
        fprintf(stderr, "%s\n", fault.text);
        exit(1);
    }
}

/* Writes NAME-recording.pcapng, NAME.pcapng as received, and NAME.departures. */
static void write_trial(const char *directory, const char *name, int jitter_ns) {
    struct world world = {0};
    struct capture capture;
    struct fault fault = {""};
    char path[512];
    world_open(&world);
    CHECK(recording_open(&capture.recording, world.options.packets, false, &fault) == 0);
    add_jittered(&world, 2000, jitter_ns, 7);
    snprintf(path, sizeof path, "%s-recording", name);
    save(&world, &world.recording, directory, path);
    world_start(&world, 1, 1000000);
    world_run(&world, store_packet, &capture, 0);
    summary_of(&world);
    save(&world, &capture.recording, directory, name);
    snprintf(path, sizeof path, "%s/%s.departures", directory, name);
    CHECK(save_departures(&world.replay, path, &fault) == 0);
    recording_close(&capture.recording);
    world_close(&world);
}

int main(int argc, char **argv) {
    world_environment(256, 0);
    if (argc == 3 && strcmp(argv[1], "trials") == 0) {
        write_trial(argv[2], "steady", 0);
        write_trial(argv[2], "jittered", 1000);
        return 0;
    }
    test_packets_are_sent_as_recorded_at_their_times();
    test_a_speed_of_two_halves_each_gap();
    test_packets_for_a_full_ring_are_retried_then_counted();
    test_a_packet_taken_late_has_the_time_of_its_departure();
    test_percentiles_of_errors_match_sorted_errors();
    test_packets_that_cannot_be_sent_are_rejected_before_the_start();
    test_late_packets_are_dropped_on_request();
    test_sleep_between_departures_is_not_a_gap();
    test_bursts_are_sent_together_or_packet_by_packet();
    test_a_stopped_run_accounts_for_packets_not_sent();
    test_a_run_that_ends_before_it_begins_has_no_preemptions();
    test_every_packet_is_received_in_order_or_counted();
    test_two_replayers_arrive_in_the_requested_order();
    puts("test_replay: ok");
    return 0;
}
