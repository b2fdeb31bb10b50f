#include "ring_world.h"

#include <rte_eth_ring.h>
#include <string.h>

#include "common/eal.h"

void world_environment(unsigned memory_mb, unsigned threads) {
    static const struct eal_settings base = {.program = "test_replay"};
    struct eal_settings settings = base;
    struct fault fault = {""};
    settings.memory_mb = memory_mb;
    settings.threads = threads;
    if (eal_start_threads(&settings, &fault) != 0) {
        fprintf(stderr, "%s\n", fault.text);
        exit(1);
    }
}

static void make_rings(struct rte_ring *ring[WORLD_QUEUES], char kind, unsigned number, unsigned port,
                       const struct world *world) {
    for (unsigned queue = 0; queue < world->options.queues; ++queue) {
        char name[32];
        snprintf(name, sizeof name, "%c%u_%u_%u", kind, number, port, queue);
        ring[queue] = rte_ring_create(name, world->ring_size ? world->ring_size : RING_SIZE,
                                      (int)rte_socket_id(), RING_F_SP_ENQ | RING_F_SC_DEQ);
        CHECK(ring[queue]);
    }
}

static void set_defaults(struct options *options) {
    options->ports = options->ports ? options->ports : 2;
    options->queues = options->queues ? options->queues : 1;
    options->burst = options->burst ? options->burst : BURST_MAX;
    options->depth = options->depth ? options->depth : 64;
    options->max_frame = options->max_frame ? options->max_frame : 2048;
    options->packets = options->packets ? options->packets : 4096;
    options->departures = options->departures ? options->departures : 65536;
}

/* Creates a device for each port. Probes of a port are received by the port that receives what it sends. */
static void make_ports(struct world *world, unsigned number) {
    static char names[64][32]; /* the options keep them */
    struct options *options = &world->options;
    const bool connected = world->looped || world->crossed;
    for (unsigned port = 0; port < options->ports; ++port) {
        make_rings(world->out_queue[port], 'o', number, port, world);
        world->out[port] = world->out_queue[port][0];
        CHECK(number * 2 + port < 64);
    }
    for (unsigned port = 0; port < options->ports; ++port) {
        const unsigned from = world->crossed ? 1 - port : port;
        char device[16];
        if (connected) {
            memcpy(world->in_queue[port], world->out_queue[from], sizeof world->in_queue[port]);
        } else {
            make_rings(world->in_queue[port], 'i', number, port, world);
        }
        world->in[port] = world->in_queue[port][0];
        snprintf(device, sizeof device, "%u_%u", number, port);
        CHECK(rte_eth_from_rings(device, world->in_queue[port], options->queues, world->out_queue[port],
                                 options->queues, rte_socket_id()) >= 0);
        char *name = names[number * 2 + port];
        snprintf(name, sizeof names[0], "net_ring_%s", device);
        options->port[port] = name;
        if (connected) {
            options->lead_from[from] = name;
            options->lead_sources = options->ports;
        }
    }
}

void world_open(struct world *world) {
    static unsigned worlds;
    struct fault fault = {""};
    set_defaults(&world->options);
    world->time = (struct timebase){.simulated = true, .simulated_ns = START_NS - 1000000};
    make_ports(world, worlds++);
    const unsigned copies = world->options.tag == TAG_NONE ? 1 : 2;
    const unsigned mbufs =
        (unsigned)world->options.packets * copies + ports_mbuf_count(&world->options) + 4096;
    if (recording_open(&world->recording, world->options.packets, world->options.bridge, &fault) != 0 ||
        replay_open(&world->replay, &world->options, &world->ports, &world->time, &fault) != 0 ||
        ports_open(&world->ports, &world->options, mbufs, &fault) != 0 ||
        ports_start(&world->ports, world->options.bridge, &fault) != 0) {
        fprintf(stderr, "%s\n", fault.text);
        exit(1);
    }
}

void world_close(struct world *world) {
    replay_close(&world->replay);
    recording_close(&world->recording);
    CHECK(rte_mempool_in_use_count(world->ports.pool) == 0);
    const unsigned ports = world->ports.count;
    ports_close(&world->ports);
    for (unsigned port = 0; port < ports; ++port) {
        for (unsigned queue = 0; queue < world->options.queues; ++queue) {
            if (!world->looped && !world->crossed) {
                rte_ring_free(world->in_queue[port][queue]);
            }
            rte_ring_free(world->out_queue[port][queue]);
        }
    }
}

struct bridge world_bridge(struct world *world) {
    return (struct bridge){.options = &world->options,
                           .ports = &world->ports,
                           .time = &world->time,
                           .recording = &world->recording};
}

/* Returns byte `at` of a packet: a byte of its number, XORed with a value that depends on the position. */
static uint8_t content(uint32_t number, uint32_t at) { return (uint8_t)(number >> (at % 4 * 8) ^ at * 31); }

struct rte_mbuf *world_packet(const struct world *world, uint32_t number, uint32_t bytes) {
    struct rte_mbuf *mbuf = rte_pktmbuf_alloc(world->ports.pool);
    CHECK(mbuf);
    uint8_t *to = rte_pktmbuf_mtod(mbuf, uint8_t *);
    for (uint32_t i = 0; i < bytes; ++i) {
        to[i] = content(number, i);
    }
    mbuf->data_len = (uint16_t)bytes;
    mbuf->pkt_len = bytes;
    return mbuf;
}

uint32_t world_number(const struct rte_mbuf *mbuf) {
    const uint8_t *from = rte_pktmbuf_mtod(mbuf, const uint8_t *);
    uint32_t number = 0;
    for (uint32_t i = 0; i < sizeof number; ++i) {
        number |= (uint32_t)(uint8_t)(from[i] ^ i * 31) << (i * 8);
    }
    return number;
}

bool world_is_packet(const struct rte_mbuf *mbuf, uint32_t number, uint32_t bytes) {
    const uint8_t *from = rte_pktmbuf_mtod(mbuf, const uint8_t *);
    bool same = mbuf->pkt_len == bytes;
    for (uint32_t i = 0; same && i < bytes; ++i) {
        same = from[i] == content(number, i);
    }
    return same;
}

void world_add(struct world *world, uint32_t number, uint32_t bytes, int64_t ts_ns, uint16_t port,
               bool first) {
    const struct packet packet = {
        .mbuf = world_packet(world, number, bytes), .ts_ns = ts_ns, .port = port, .first = first};
    CHECK(!recording_full(&world->recording));
    recording_add(&world->recording, &packet, TIMESTAMPS_FILE);
}

void world_start(struct world *world, uint32_t loops, uint64_t speed_ppm) {
    struct fault fault = {""};
    struct replay *replay = &world->replay;
    if (plan_build(&replay->plan, &world->recording, &world->ports, &world->options, speed_ppm, &fault) !=
            0 ||
        replay_prepare(replay, loops, speed_ppm, &fault) != 0 ||
        replay_start_at(replay, START_NS, &fault) != 0) {
        fprintf(stderr, "%s\n", fault.text);
        exit(1);
    }
    replay_begin(replay);
}

void world_drain(struct world *world, receiver *receive, void *user) {
    void *mbuf = NULL;
    for (unsigned i = 0; i < world->ports.count * world->options.queues; ++i) {
        const unsigned port = i / world->options.queues, queue = i % world->options.queues;
        while (rte_ring_dequeue(world->out_queue[port][queue], &mbuf) == 0) {
            if (receive) {
                receive(user, port, mbuf, world->time.simulated_ns);
            } else {
                rte_pktmbuf_free(mbuf);
            }
        }
    }
}

void world_run(struct world *world, receiver *receive, void *user, int64_t stuck_ns) {
    struct replay *replay = &world->replay;
    int64_t *now = &world->time.simulated_ns;
    while (replay->end_reason == END_NONE) {
        const uint32_t before = replay->retries;
        *now = replay->due_ns > *now ? replay->due_ns : *now;
        replay_poll(replay);
        *now += replay->retries > before ? stuck_ns : 0;
        if (receive) {
            world_drain(world, receive, user);
        }
    }
}
