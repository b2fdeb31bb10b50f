/* Benchmark: one thread receives packets with stamps from a memory ring and counts them.
 *
 *     bench_monitor PACKETS FLOWS BYTES PATTERN
 *
 * BYTES excludes the FCS. PATTERN is that of the payload, as for --pattern, or none. The flows of consecutive
 * packets are random. The ring is filled and emptied in turn; only the time in which it is emptied counts.
 * Prints a JSON object. */
#include <inttypes.h>
#include <rte_cycles.h>
#include <rte_eth_ring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/check.h"
#include "common/eal.h"
#include "from_ports.h"

#define RING 8192
#define HEADERS 42 /* Ethernet, IPv4, UDP */
#define SPACING_NS 100
#define START_NS 1790000000000000000

struct source {
    struct rte_ring *ring;
    struct rte_mempool *pool;
    uint32_t *sequence; /* of each flow */
    uint32_t flows, bytes;
    uint8_t header[HEADERS];
    uint64_t random;
    enum pattern pattern;
    bool has_pattern;
};

static void make_header(uint8_t to[HEADERS], uint32_t bytes) {
    const uint16_t total = __builtin_bswap16((uint16_t)(bytes - 14));
    const uint16_t length = __builtin_bswap16((uint16_t)(bytes - 34));
    uint32_t sum = 0;
    memset(to, 0, HEADERS);
    to[0] = to[6] = 2;
    to[12] = 8;
    to[14] = 0x45;
    memcpy(to + 16, &total, sizeof total);
    to[22] = 64;
    to[23] = 17;
    to[26] = to[30] = 10;
    to[33] = 1;
    for (unsigned i = 14; i < 34; i += 2) {
        sum += (uint32_t)to[i] << 8 | to[i + 1];
    }
    sum = (sum & 0xffff) + (sum >> 16);
    to[24] = (uint8_t)(~sum >> 8);
    to[25] = (uint8_t)~sum;
    to[37] = 1;
    memcpy(to + 38, &length, sizeof length);
}

static struct rte_mbuf *make_packet(struct source *source, int64_t departure_ns) {
    struct rte_mbuf *mbuf = rte_pktmbuf_alloc(source->pool);
    CHECK(mbuf);
    source->random = source->random * 6364136223846793005ULL + 1442695040888963407ULL;
    const uint32_t flow = (uint32_t)((source->random >> 32) * source->flows >> 32);
    const uint32_t sequence = source->sequence[flow]++;
    uint8_t *to = rte_pktmbuf_mtod(mbuf, uint8_t *);
    const uint32_t stamped = HEADERS + STAMP_BYTES;
    memcpy(to, source->header, HEADERS);
    stamp_write(to + HEADERS, flow, sequence, departure_ns);
    if (source->has_pattern) {
        pattern_write(source->pattern, to + stamped, source->bytes - stamped, flow, sequence);
    }
    mbuf->data_len = (uint16_t)source->bytes;
    mbuf->pkt_len = source->bytes;
    return mbuf;
}

static uint64_t fill(struct source *source, uint64_t max_packets, int64_t *departure_ns) {
    uint64_t count = 0;
    for (; count < max_packets && count < RING - 1; ++count) {
        *departure_ns += SPACING_NS;
        CHECK(rte_ring_enqueue(source->ring, make_packet(source, *departure_ns)) == 0);
    }
    return count;
}

static void open_source(struct source *source) {
    source->ring = rte_ring_create("bench", RING, (int)rte_socket_id(), RING_F_SP_ENQ | RING_F_SC_DEQ);
    source->pool = rte_pktmbuf_pool_create("packets", 2 * RING - 1, 256, 0, 2048 + RTE_PKTMBUF_HEADROOM,
                                           (int)rte_socket_id());
    source->sequence = calloc(source->flows, sizeof *source->sequence);
    CHECK(source->ring && source->pool && source->sequence);
    CHECK(rte_eth_from_rings("bench", &source->ring, 1, &source->ring, 1, rte_socket_id()) >= 0);
    make_header(source->header, source->bytes);
}

static void open_receiver(struct receiver *receiver, struct monitor *monitor, const struct source *source) {
    struct fault fault = {""};
    const struct port_settings port = {
        .device = "net_ring_bench", .queues = 1, .depth = 256, .burst = MONITOR_BURST, .max_frame = 2048};
    const struct monitor_settings settings = {.flows = source->flows,
                                              .window = 1024,
                                              .checks_pattern = source->has_pattern,
                                              .pattern = source->pattern};
    if (receive_port_open(&receiver->port, &port, &fault) != 0 ||
        receive_port_start(&receiver->port, &fault) != 0 || monitor_open(monitor, &settings, &fault) != 0) {
        fprintf(stderr, "%s\n", fault.text);
        exit(1);
    }
    receiver->monitor = monitor;
}

static uint64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void read_pattern(struct source *source, const char *text) {
    static const char *const patterns[PATTERNS] = {"zeros", "ones", "aa55", "counter", "prbs31"};
    for (unsigned i = 0; i < PATTERNS; ++i) {
        if (strcmp(text, patterns[i]) == 0) {
            source->has_pattern = true;
            source->pattern = (enum pattern)i;
        }
    }
    CHECK(source->has_pattern || strcmp(text, "none") == 0);
}

int main(int argc, char **argv) {
    static struct receiver receiver;
    static struct monitor counts;
    struct monitor *monitor = &counts;
    struct fault fault = {""};
    if (argc != 5) {
        fputs("usage: bench_monitor PACKETS FLOWS BYTES PATTERN\n", stderr);
        return 2;
    }
    const uint64_t packets = strtoull(argv[1], NULL, 10);
    struct source source = {.flows = (uint32_t)strtoul(argv[2], NULL, 10),
                            .bytes = (uint32_t)strtoul(argv[3], NULL, 10),
                            .random = 1};
    const struct eal_settings eal = {.program = "bench_monitor", .memory_mb = 128};
    CHECK(packets && source.flows && source.bytes >= HEADERS + STAMP_BYTES && source.bytes <= 1514);
    read_pattern(&source, argv[4]);
    if (eal_start_threads(&eal, &fault) != 0) {
        fprintf(stderr, "%s\n", fault.text);
        return 1;
    }
    open_source(&source);
    open_receiver(&receiver, monitor, &source);
    uint64_t ticks = 0, done = 0, cpu = 0;
    int64_t departure_ns = START_NS;
    while (done < packets) {
        const uint64_t filled = fill(&source, packets - done, &departure_ns);
        const uint64_t cpu_before = cpu_ns(), before = rte_rdtsc();
        for (uint64_t received = 0; received < filled;) {
            received += receiver_burst(&receiver);
        }
        ticks += rte_rdtsc() - before;
        cpu += cpu_ns() - cpu_before;
        done += filled;
    }
    CHECK(monitor_balances(monitor) && monitor->counts.unique == packets && monitor->counts.reordered == 0);
    printf("{\"packets\": %" PRIu64 ", \"duration_ns\": %.0f, \"cpu_ns\": %" PRIu64
           ", \"bit_errors\": %" PRIu64 "}\n",
           packets, (double)ticks * 1e9 / receiver.port.tsc_hz, cpu, monitor->counts.bit_errors);
    receive_port_close(&receiver.port);
    monitor_close(monitor);
    free(source.sequence);
    return 0;
}
