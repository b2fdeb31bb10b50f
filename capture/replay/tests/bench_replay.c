/* Benchmark: one thread replays into a memory ring, another one reads the first and last byte of each packet.
 *
 *     bench_replay PACKETS BYTES LOOPS GAP_NS BURST
 *
 * GAP_NS 0: as fast as possible. Prints a JSON object. */
#include <inttypes.h>
#include <rte_launch.h>
#include <time.h>

#include "control/summary.h"
#include "ring_world.h"

#define RING 16384
#define READ_BURST 64

/* The receiving thread. */
struct reader {
    struct rte_ring *ring;
    uint64_t packets, sum; /* sum of the bytes that were read, so that no read is optimized away */
};

static void read_burst(struct reader *reader) {
    void *mbuf[READ_BURST];
    const unsigned received = rte_ring_dequeue_burst(reader->ring, mbuf, READ_BURST, NULL);
    for (unsigned i = 0; i < received; ++i) {
        const struct rte_mbuf *packet = mbuf[i];
        const uint8_t *bytes = rte_pktmbuf_mtod(packet, const uint8_t *);
        reader->sum += bytes[0] + bytes[packet->data_len - 1];
    }
    rte_pktmbuf_free_bulk((struct rte_mbuf **)mbuf, received);
    reader->packets += received;
}

/* The sending thread. */
struct sender {
    struct replay *replay;
    int64_t cpu_ns; /* CPU time from 100 us before the first due time on */
};

static int64_t cpu_time_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int send_all(void *argument) {
    struct sender *sender = argument;
    struct replay *replay = sender->replay;
    while (timebase_ns(replay->time) < replay->due_ns - 100000) {
    }
    replay_begin(replay);
    sender->cpu_ns = -cpu_time_ns();
    while (replay_poll(replay)) {
    }
    sender->cpu_ns += cpu_time_ns();
    return 0;
}

static void add_packets(struct world *world, uint32_t bytes, int64_t gap_ns) {
    for (uint32_t i = 0; i < world->options.packets; ++i) {
        const bool first = i % world->options.burst == 0;
        world_add(world, i, bytes, (int64_t)(i / world->options.burst) * world->options.burst * gap_ns, 0,
                  first);
    }
}

static void run(struct world *world, uint32_t loops, struct sender *sender, struct reader *reader) {
    struct fault fault = {""};
    struct replay *replay = &world->replay;
    sender->replay = replay;
    world->time.simulated = false;
    if (timebase_begin(&world->time, &fault) != 0 ||
        plan_build(&replay->plan, &world->recording, &world->ports, &world->options, 1000000, &fault) != 0 ||
        replay_prepare(replay, loops, 1000000, &fault) != 0 ||
        replay_start_at(replay, timebase_ns(&world->time) + 20000000, &fault) != 0) {
        fprintf(stderr, "%s\n", fault.text);
        exit(1);
    }
    CHECK(rte_eal_remote_launch(send_all, sender, 1) == 0);
    while (rte_eal_get_lcore_state(1) == RUNNING) {
        read_burst(reader);
    }
    rte_eal_wait_lcore(1);
    while (rte_ring_count(reader->ring)) {
        read_burst(reader);
    }
}

static void print(const struct world *world, const struct sender *sender, const struct reader *reader) {
    struct summary summary;
    const struct replay *replay = &world->replay;
    summarize(&summary, replay);
    CHECK(summary.balanced && summary.monotone && summary.measured);
    CHECK(reader->packets == summary.outcome[OUTCOME_SENT]);
    printf("{\"requested\": %" PRIu64 ", \"sent\": %" PRIu64 ", \"ring_full\": %" PRIu64
           ", \"retries\": %" PRIu64 ", \"duration_ns\": %" PRId64 ", \"median_ns\": %" PRId64
           ", \"p99_ns\": %" PRId64 ", \"largest_ns\": %" PRId64 ", \"largest_gap_ns\": %" PRId64
           ", \"preemptions\": %ld, \"cpu_ns\": %" PRId64 ", \"sum\": %" PRIu64 "}\n",
           summary.packets, summary.outcome[OUTCOME_SENT], summary.outcome[OUTCOME_RING_FULL],
           summary.retries, summary.last_ns - summary.first_ns, summary.median_ns, summary.p99_ns,
           summary.largest_ns, replay->largest_gap_ns, replay->preemptions, sender->cpu_ns, reader->sum);
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fputs("usage: bench_replay PACKETS BYTES LOOPS GAP_NS BURST\n", stderr);
        return 2;
    }
    const uint64_t packets = strtoull(argv[1], NULL, 10), loops = strtoull(argv[3], NULL, 10);
    const uint32_t bytes = (uint32_t)strtoul(argv[2], NULL, 10);
    struct world world = {.options = {.ports = 1,
                                      .packets = packets,
                                      .departures = packets * loops,
                                      .max_frame = bytes,
                                      .burst = (unsigned)strtoul(argv[5], NULL, 10),
                                      .retry_ns = 1000000000},
                          .ring_size = RING};
    CHECK(packets && loops && bytes >= 60 && world.options.burst >= 1 && world.options.burst <= BURST_MAX);
    world_environment((unsigned)(packets * 4096 / 1000000 + 128), 1);
    world_open(&world);
    add_packets(&world, bytes, (int64_t)strtoull(argv[4], NULL, 10));
    struct reader reader = {.ring = world.out[0]};
    struct sender sender = {NULL, 0};
    run(&world, (uint32_t)loops, &sender, &reader);
    print(&world, &sender, &reader);
    world_close(&world);
    return 0;
}
