/* Generates packets into a memory ring as fast as possible. With `apart`, one core builds and sends them, and
 * the main thread takes them from the ring; with `alone`, one core does both, so that the result does not
 * depend on the scheduling of two threads. Prints JSON. */
#include <inttypes.h>
#include <rte_eth_ring.h>
#include <rte_launch.h>
#include <time.h>

#include "common/check.h"
#include "sender.h"

#define RING 4096
#define MEMORY_MB 512
#define LCORE 1

struct bench {
    struct transmission *transmission;
    struct timebase *time;
    struct rte_ring *ring; /* emptied by the sending thread; NULL: the main thread empties it */
    int64_t cpu_ns, duration_ns;
    uint64_t received, sum;
};

static int64_t cpu_time_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Takes packets from the ring, and reads a byte of each. */
static void receive(struct bench *bench, struct rte_ring *ring) {
    struct rte_mbuf *mbuf[BURST_MAX];
    const unsigned count = rte_ring_dequeue_burst(ring, (void **)mbuf, BURST_MAX, NULL);
    for (unsigned i = 0; i < count; ++i) {
        bench->sum += rte_pktmbuf_mtod(mbuf[i], const uint8_t *)[mbuf[i]->data_len - 1];
    }
    rte_pktmbuf_free_bulk(mbuf, count);
    bench->received += count;
}

/* The sending thread. */
static int send_all(void *argument) {
    struct bench *bench = argument;
    while (timebase_ns(bench->time) < bench->transmission->start_ns) {
    }
    bench->cpu_ns = -cpu_time_ns();
    bench->duration_ns = -timebase_ns(bench->time);
    while (transmission_poll(bench->transmission)) {
        if (bench->ring) {
            receive(bench, bench->ring);
        }
    }
    bench->duration_ns += timebase_ns(bench->time);
    bench->cpu_ns += cpu_time_ns();
    return 0;
}

static struct rte_ring *create_port(void) {
    const unsigned flags = RING_F_SP_ENQ | RING_F_SC_DEQ;
    struct rte_ring *in = rte_ring_create("in", RING, SOCKET_ID_ANY, flags);
    struct rte_ring *out = rte_ring_create("out", RING, SOCKET_ID_ANY, flags);
    CHECK(in && out && rte_eth_from_rings("bench", &in, 1, &out, 1, rte_socket_id()) >= 0);
    return out;
}

static void run(struct model *model, struct rte_ring *ring, bool alone) {
    static struct sender sender;
    const struct arguments arguments = {
        .port = "net_ring_bench", .burst = BURST_MAX, .depth = 1024, .retry_ns = 1000000000};
    struct fault fault = {""};
    if (sender_open(&sender, model, &arguments, &fault) != 0) {
        fprintf(stderr, "%s\n", fault.text);
        exit(1);
    }
    struct bench bench = {
        .transmission = &sender.transmission, .time = &sender.time, .ring = alone ? ring : NULL};
    uint64_t sent = 0, dropped = 0;
    CHECK(rte_eal_remote_launch(send_all, &bench, LCORE) == 0);
    while (!alone && rte_eal_get_lcore_state(LCORE) == RUNNING) {
        receive(&bench, ring);
    }
    rte_eal_wait_lcore(LCORE);
    while (rte_ring_count(ring)) {
        receive(&bench, ring);
    }
    for (uint32_t i = 0; i < model->flows; ++i) {
        sent += model->flow[i].sent;
        dropped += model->flow[i].dropped;
    }
    CHECK(bench.received == sent && sender.transmission.end == SENT_ALL);
    printf("{\"sent\": %" PRIu64 ", \"dropped\": %" PRIu64 ", \"duration_ns\": %" PRId64
           ", \"cpu_ns\": %" PRId64 ", \"sum\": %" PRIu64 "}\n",
           sent, dropped, bench.duration_ns, bench.cpu_ns, bench.sum);
    sender_close(&sender);
}

int main(int argc, char **argv) {
    const struct eal_settings settings = {.program = PROGRAM, .memory_mb = MEMORY_MB, .threads = 1};
    struct fault fault = {""};
    struct model model;
    const bool alone = argc == 3 && strcmp(argv[2], "alone") == 0;
    if (argc != 3 || (!alone && strcmp(argv[2], "apart") != 0)) {
        fputs("usage: bench_generate MODEL alone|apart\n", stderr);
        return 2;
    }
    flow_begin_patterns();
    if (model_read(&model, argv[1], &fault) != 0 || eal_start_threads(&settings, &fault) != 0) {
        fprintf(stderr, "%s\n", fault.text);
        return 1;
    }
    run(&model, create_port(), alone);
    model_free(&model);
    return 0;
}
