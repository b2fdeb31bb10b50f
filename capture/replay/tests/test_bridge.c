/* Tests of the bridge with a simulated clock: forwarding, recording, and replay of the recording. */
#include <string.h>
#include <unistd.h>

#include "control/summary.h"
#include "files/load.h"
#include "files/save.h"
#include "ring_world.h"

#define BYTES 100

static void offer(struct world *world, unsigned port, uint32_t first, uint32_t packets) {
    for (uint32_t i = first; i < first + packets; ++i) {
        CHECK(rte_ring_enqueue(world->in[port], world_packet(world, i, BYTES)) == 0);
    }
}

/* Checks that packets arrive in the order of their numbers, with their content. */
static void expect_next(void *user, unsigned port, struct rte_mbuf *mbuf, int64_t now_ns) {
    uint32_t *next = user;
    (void)now_ns;
    CHECK(world_is_packet(mbuf, next[port], BYTES));
    ++next[port];
    rte_pktmbuf_free(mbuf);
}

static void check_balance(const struct world *world) {
    for (unsigned i = 0; i < 2; ++i) {
        const struct traffic port = port_traffic(world->ports.port[i].traffic);
        CHECK(port.received == port.forwarded + port.ring_full + port.driver_error + port.too_long);
    }
}

static void test_both_directions_are_forwarded_unchanged(void) {
    struct world world = {.options = {.bridge = true, .burst = 32}};
    uint32_t next[2] = {0};
    world_open(&world);
    struct bridge bridge = world_bridge(&world);
    offer(&world, 0, 0, 100);
    offer(&world, 1, 0, 70);
    while (bridge_poll(&bridge)) {
        world_drain(&world, expect_next, next);
    }
    CHECK(next[1] == 100 && next[0] == 70);
    CHECK(world.ports.port[0].traffic[0].forwarded == 100 && world.ports.port[1].traffic[0].forwarded == 70);
    CHECK(recording_packets(&world.recording) == 0);
    check_balance(&world);
    world_close(&world);
}

static void test_bursts_are_recorded_without_copying(void) {
    struct world world = {.options = {.bridge = true, .burst = 8}};
    uint32_t next[2] = {0};
    world_open(&world);
    struct bridge bridge = world_bridge(&world);
    bridge_record(&bridge, 0, 0, 0);
    offer(&world, 0, 0, 20);
    for (int burst = 0; burst < 3; ++burst) {
        world.time.simulated_ns = START_NS + burst * 1000;
        CHECK(bridge_poll(&bridge) == (burst < 2 ? 8U : 4U));
    }
    CHECK(world.recording.timestamps == TIMESTAMPS_BURST);
    for (uint32_t i = 0; i < 20; ++i) {
        void *sent = NULL;
        const struct packet *packet = recording_at(&world.recording, i);
        CHECK(rte_ring_dequeue(world.out[1], &sent) == 0 && sent == packet->mbuf);
        CHECK(rte_mbuf_refcnt_read(packet->mbuf) == 2);
        rte_pktmbuf_free(sent);
        CHECK(packet->port == 1 && packet->ts_ns == START_NS + i / 8 * 1000);
        CHECK(packet->first == (i % 8 == 0) && packet->unresolved == (i % 8 != 0));
    }
    bridge_stop(&bridge, RECORDING_END_STOP);
    offer(&world, 0, 0, 5);
    CHECK(bridge_poll(&bridge) == 5 && recording_packets(&world.recording) == 20);
    world_drain(&world, expect_next, next);
    world_close(&world);
}

static void test_only_packets_between_the_two_times_are_recorded(void) {
    struct world world = {.options = {.bridge = true}};
    world_open(&world);
    struct bridge bridge = world_bridge(&world);
    bridge_record(&bridge, START_NS + 1000, START_NS + 3000, 0);
    for (uint32_t i = 0; i < 5; ++i) {
        world.time.simulated_ns = START_NS + i * 1000;
        offer(&world, 0, i, 1);
        bridge_poll(&bridge);
    }
    CHECK(bridge.end == RECORDING_END_UNTIL && !bridge.records);
    CHECK(recording_packets(&world.recording) == 2);
    CHECK(world_is_packet(recording_at(&world.recording, 0)->mbuf, 1, BYTES));
    CHECK(world_is_packet(recording_at(&world.recording, 1)->mbuf, 2, BYTES));
    world_drain(&world, NULL, NULL);
    world_close(&world);
}

static void test_a_recording_ends_even_without_packets(void) {
    struct world world = {.options = {.bridge = true}};
    world_open(&world);
    struct bridge bridge = world_bridge(&world);
    bridge_record(&bridge, 0, START_NS, 0);
    CHECK(bridge_poll(&bridge) == 0 && bridge.records);
    world.time.simulated_ns = START_NS;
    CHECK(bridge_poll(&bridge) == 0 && bridge.end == RECORDING_END_UNTIL);
    world_close(&world);
}

static void test_a_full_recording_ends_and_forwarding_continues(void) {
    struct world world = {.options = {.bridge = true, .packets = 10}};
    uint32_t next[2] = {0};
    world_open(&world);
    struct bridge bridge = world_bridge(&world);
    bridge_record(&bridge, 0, 0, 0);
    offer(&world, 0, 0, 30);
    CHECK(bridge_poll(&bridge) == 30 && bridge.end == RECORDING_END_MEMORY);
    CHECK(recording_packets(&world.recording) == 10);
    world_drain(&world, expect_next, next);
    CHECK(next[1] == 30);
    world_close(&world);
}

static void test_a_rolling_recording_keeps_the_latest_packets(void) {
    struct world world = {.options = {.bridge = true, .packets = 50}};
    world_open(&world);
    struct bridge bridge = world_bridge(&world);
    bridge_record(&bridge, 0, 0, 10000);
    for (uint32_t i = 0; i < 100; ++i) {
        world.time.simulated_ns = START_NS + i * 1000;
        offer(&world, 0, i, 1);
        bridge_poll(&bridge);
        world_drain(&world, NULL, NULL);
    }
    CHECK(recording_packets(&world.recording) == 11 && bridge.removed_memory == 0);
    CHECK(world_is_packet(recording_at(&world.recording, 0)->mbuf, 89, BYTES));
    world.time.simulated_ns += 4000;
    bridge_stop(&bridge, RECORDING_END_STOP);
    CHECK(recording_packets(&world.recording) == 7);
    recording_clear(&world.recording);
    bridge_record(&bridge, 0, 0, 1000000000);
    offer(&world, 0, 0, 60);
    bridge_poll(&bridge);
    CHECK(recording_packets(&world.recording) == 50 && bridge.removed_memory == 10 && bridge.records);
    CHECK(recording_at(&world.recording, 0)->first);
    world_drain(&world, NULL, NULL);
    world_close(&world);
}

static void test_packets_that_are_not_forwarded_are_counted_and_not_recorded(void) {
    struct world world = {.options = {.bridge = true, .packets = 2048}};
    world_open(&world);
    struct bridge bridge = world_bridge(&world);
    world.ports.port[0].longest = BYTES - 1; /* for packets that arrive at port 1 */
    bridge_record(&bridge, 0, 0, 0);
    for (uint32_t i = 0; i < 2; ++i) {
        offer(&world, 0, i * 1000, 1000);
        while (bridge_poll(&bridge)) {
        }
    }
    offer(&world, 1, 0, 10);
    CHECK(bridge_poll(&bridge) == 10);
    CHECK(world.ports.port[0].traffic[0].ring_full == 2000 - (RING_SIZE - 1));
    CHECK(world.ports.port[1].traffic[0].too_long == 10);
    CHECK(recording_packets(&world.recording) == RING_SIZE - 1);
    check_balance(&world);
    world_drain(&world, NULL, NULL);
    world_close(&world);
}

/* The rings have no timestamps, so the test sets them as a driver would. */
static void test_timestamps_of_the_device_are_recorded_per_packet(void) {
    struct world world = {.options = {.bridge = true}};
    struct port *port = &world.ports.port[0];
    world_open(&world);
    CHECK(rte_mbuf_dyn_rx_timestamp_register(&port->stamp_offset, &port->stamp_flag) == 0);
    port->stamps = PORT_STAMPS_TIME;
    struct bridge bridge = world_bridge(&world);
    bridge_record(&bridge, 0, 0, 0);
    for (uint32_t i = 0; i < 6; ++i) {
        struct rte_mbuf *mbuf = world_packet(&world, i, BYTES);
        if (i != 4) {
            *RTE_MBUF_DYNFIELD(mbuf, port->stamp_offset, rte_mbuf_timestamp_t *) = START_NS + i * 3;
            mbuf->ol_flags |= port->stamp_flag;
        }
        CHECK(rte_ring_enqueue(world.in[0], mbuf) == 0);
    }
    world.time.simulated_ns = START_NS + 1000;
    CHECK(bridge_poll(&bridge) == 6 && world.recording.timestamps == TIMESTAMPS_MIXED);
    for (uint32_t i = 0; i < 6; ++i) {
        const struct packet *packet = recording_at(&world.recording, i);
        CHECK(packet->ts_ns == START_NS + (i == 4 ? 1000 : i * 3));
        CHECK(packet->unresolved == (i == 4) && packet->first == (i == 0));
    }
    world_drain(&world, NULL, NULL);
    world_close(&world);
}

/* Saves the recording, loads it, and compares. */
static void save_and_load(struct world *world) {
    char path[] = "/tmp/test_bridge.XXXXXX";
    struct world other = {.options = {.bridge = true}};
    struct loaded loaded;
    struct fault fault = {""};
    const int fd = mkstemp(path);
    CHECK(fd >= 0 && close(fd) == 0);
    CHECK(save_recording(&world->recording, &world->ports, path, &fault) == 0);
    world_open(&other);
    CHECK(load_file(&other.recording, path, &other.ports, &other.options, &loaded, &fault) == 0);
    unlink(path);
    CHECK(loaded.packets == recording_packets(&world->recording) && !loaded.file_truncated &&
          loaded.truncated_packets == 0);
    for (uint64_t i = 0; i < loaded.packets; ++i) {
        const struct packet *left = recording_at(&world->recording, i),
                            *right = recording_at(&other.recording, i);
        CHECK(left->ts_ns == right->ts_ns && left->port == right->port && left->first == right->first);
        CHECK(left->unresolved == right->unresolved && left->mbuf->pkt_len == right->mbuf->pkt_len);
        CHECK(memcmp(rte_pktmbuf_mtod(left->mbuf, void *), rte_pktmbuf_mtod(right->mbuf, void *),
                     left->mbuf->pkt_len) == 0);
    }
    world_close(&other);
}

static void test_a_replay_keeps_the_bursts_of_the_recording(void) {
    struct world world = {.options = {.bridge = true, .burst = 16}};
    uint32_t next[2] = {0};
    world_open(&world);
    struct bridge bridge = world_bridge(&world);
    bridge_record(&bridge, 0, 0, 0);
    for (uint32_t i = 0; i < 40; ++i) {
        world.time.simulated_ns = START_NS - 1000000000 + i * i * 100;
        offer(&world, 0, i * 7, 7);
        offer(&world, 1, i * 3, 3);
        bridge_poll(&bridge);
        world_drain(&world, expect_next, next);
    }
    bridge_stop(&bridge, RECORDING_END_STOP);
    save_and_load(&world);
    memset(next, 0, sizeof next);
    world_start(&world, 1, 1000000);
    world_run(&world, expect_next, next, 0);
    CHECK(next[1] == 280 && next[0] == 120);
    for (uint32_t i = 0; i < 400; ++i) {
        const uint32_t burst = i / 10;
        CHECK(world.replay.departed[i].ns == START_NS + burst * burst * 100);
    }
    struct summary summary;
    summarize(&summary, &world.replay);
    CHECK(summary.balanced && summary.outcome[OUTCOME_SENT] == 400);
    world_close(&world);
}

#define GAP_NS 500000
#define GUARD_NS 50000
#define COST_NS 3000       /* per packet */
#define BURST_COST_NS 2000 /* additional cost of a burst with packets */

/* A callback of DPDK: on the simulated clock, forwarding takes time. */
static uint16_t take_time(uint16_t port, uint16_t queue, struct rte_mbuf **mbuf, uint16_t count,
                          uint16_t room, void *user) {
    (void)port, (void)queue, (void)mbuf, (void)room;
    *(int64_t *)user += count ? BURST_COST_NS + COST_NS * count : 0;
    return count;
}

#define FIRST_COST_NS 20000 /* cost that the bridge assumes for the first packet */
#define SEND_COST_NS 1000

static uint16_t take_time_to_send(uint16_t port, uint16_t queue, struct rte_mbuf **mbuf, uint16_t count,
                                  void *user) {
    (void)port, (void)queue, (void)mbuf;
    *(int64_t *)user += SEND_COST_NS;
    return count;
}

/* Replays packets at constant intervals, polls like the polling thread, and offers more packets than can be
 * forwarded. Checks that forwarding ends before the guard time. */
static void run_with_traffic(struct world *world, struct bridge *bridge) {
    struct replay *replay = &world->replay;
    int64_t *now = &world->time.simulated_ns;
    *now = START_NS - GAP_NS;
    world_start(world, 1, 1000000);
    while (replay_poll(replay)) {
        for (unsigned port = 0; port < 2; ++port) {
            if (rte_ring_count(world->in[port]) < BURST_MAX) {
                offer(world, port, 0, 2 * BURST_MAX);
            }
        }
        if (replay->due_ns - *now > GUARD_NS && bridge_poll_before(bridge, replay->due_ns)) {
            CHECK(*now <= replay->due_ns - GUARD_NS);
        }
        *now += 100;
        world_drain(world, NULL, NULL);
    }
    world_drain(world, NULL, NULL);
    for (uint64_t i = 0; i < replay->departures; ++i) {
        CHECK(replay->departed[i].ns >= replay_requested(replay, 0, (uint32_t)i));
        CHECK(replay->departed[i].ns < replay_requested(replay, 0, (uint32_t)i) + 100); /* one poll later */
    }
}

static void test_forwarding_during_a_run_ends_before_the_guard(void) {
    struct world world = {.options = {.bridge = true, .guard_ns = GUARD_NS, .retry_ns = 100000}};
    world_open(&world);
    struct bridge bridge = world_bridge(&world);
    const struct rte_eth_rxtx_callback *callback[2];
    for (unsigned port = 0; port < 2; ++port) {
        callback[port] =
            rte_eth_add_rx_callback(world.ports.port[port].id, 0, take_time, &world.time.simulated_ns);
        CHECK(callback[port]);
    }
    for (uint32_t i = 0; i < 60; ++i) {
        world_add(&world, i, BYTES, (int64_t)i * GAP_NS, 0, true);
    }
    run_with_traffic(&world, &bridge);
    uint64_t forwarded[2] = {world.ports.port[0].traffic[0].forwarded,
                             world.ports.port[1].traffic[0].forwarded};
    const uint64_t possible = 60 * (uint64_t)(GAP_NS - GUARD_NS) / COST_NS;
    CHECK(forwarded[0] + forwarded[1] > possible / 2);
    CHECK(forwarded[0] > possible / 5 && forwarded[1] > possible / 5);
    for (unsigned size = 0; size < BURST_SIZES; ++size) { /* as if the thread had been preempted */
        bridge.cost.ns[size] = 8000000;
    }
    run_with_traffic(&world, &bridge);
    CHECK(world.ports.port[0].traffic[0].forwarded > forwarded[0] + possible / 10);
    bridge.cost.ns[1] = 8000000; /* cost of bursts of two packets */
    run_with_traffic(&world, &bridge);
    CHECK(bridge.cost.ns[1] < GAP_NS);
    check_balance(&world);
    for (unsigned port = 0; port < 2; ++port) {
        CHECK(rte_eth_remove_rx_callback(world.ports.port[port].id, 0, callback[port]) == 0);
    }
    void *mbuf = NULL;
    for (unsigned port = 0; port < 2; ++port) {
        while (rte_ring_dequeue(world.in[port], &mbuf) == 0) {
            rte_pktmbuf_free(mbuf);
        }
    }
    world_close(&world);
}

/* The driver no longer accepts packets, so each is retried until the guard. */
static void test_retries_during_a_run_end_before_the_guard(void) {
    struct world world = {.options = {.bridge = true, .guard_ns = GUARD_NS, .retry_ns = 100000}};
    world_open(&world);
    struct bridge bridge = world_bridge(&world);
    while (!rte_ring_full(world.out[1])) {
        CHECK(rte_ring_enqueue(world.out[1], world_packet(&world, 0, BYTES)) == 0);
    }
    const struct rte_eth_rxtx_callback *callback =
        rte_eth_add_tx_callback(world.ports.port[1].id, 0, take_time_to_send, &world.time.simulated_ns);
    CHECK(callback);
    offer(&world, 0, 0, 1);
    const int64_t due_ns = world.time.simulated_ns + GUARD_NS + FIRST_COST_NS + 5000;
    CHECK(bridge_poll_before(&bridge, due_ns) == 1);
    CHECK(world.ports.port[0].traffic[0].ring_full == 1);
    CHECK(world.time.simulated_ns <= due_ns - GUARD_NS + SEND_COST_NS);
    CHECK(rte_eth_remove_tx_callback(world.ports.port[1].id, 0, callback) == 0);
    world_drain(&world, NULL, NULL);
    world_close(&world);
}

int main(void) {
    world_environment(256, 0);
    test_both_directions_are_forwarded_unchanged();
    test_bursts_are_recorded_without_copying();
    test_only_packets_between_the_two_times_are_recorded();
    test_a_recording_ends_even_without_packets();
    test_a_full_recording_ends_and_forwarding_continues();
    test_a_rolling_recording_keeps_the_latest_packets();
    test_packets_that_are_not_forwarded_are_counted_and_not_recorded();
    test_timestamps_of_the_device_are_recorded_per_packet();
    test_a_replay_keeps_the_bursts_of_the_recording();
    test_forwarding_during_a_run_ends_before_the_guard();
    test_retries_during_a_run_end_before_the_guard();
    puts("test_bridge: ok");
    return 0;
}
