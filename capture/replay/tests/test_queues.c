/* Tests of ports with several queues: order, merging by timestamps, Tx queues of flows, and counters. */
#include <string.h>
#include <unistd.h>

#include "common/ports/drain.h"
#include "control/summary.h"
#include "files/load.h"
#include "files/save.h"
#include "packets/flow_queue.h"
#include "ring_world.h"

#define BYTES 60
#define PACKETS 800
#define SECOND 1000000000LL

/* Packets that the bridge receives, by their numbers. */
struct offered {
    int64_t ts_ns[PACKETS];
    uint16_t port[PACKETS]; /* at which it arrives */
    uint8_t queue[PACKETS];
    uint32_t count;
};

static void offer(struct world *world, struct offered *offered, uint16_t port, uint8_t queue, int64_t ts_ns) {
    const struct port *at = &world->ports.port[port];
    struct rte_mbuf *mbuf = world_packet(world, offered->count, BYTES);
    if (at->stamps != PORT_STAMPS_NONE) {
        *RTE_MBUF_DYNFIELD(mbuf, at->stamp_offset, rte_mbuf_timestamp_t *) = (uint64_t)ts_ns;
        mbuf->ol_flags |= at->stamp_flag;
    }
    offered->ts_ns[offered->count] = ts_ns;
    offered->port[offered->count] = port;
    offered->queue[offered->count++] = queue;
    CHECK(rte_ring_enqueue(world->in_queue[port][queue], mbuf) == 0);
}

/* Returns the number of a packet. */
static uint32_t number_of(const struct rte_mbuf *mbuf, const struct offered *offered) {
    uint32_t number = 0;
    while (!world_is_packet(mbuf, number, BYTES)) {
        CHECK(++number < offered->count);
    }
    return number;
}

/* The rings have no timestamps, so the test sets them as a driver would. */
static void open_bridge(struct world *world, bool stamps) {
    world->options = (struct options){.bridge = true, .burst = 8, .queues = WORLD_QUEUES};
    world_open(world);
    for (unsigned i = 0; i < 2 && stamps; ++i) {
        struct port *port = &world->ports.port[i];
        CHECK(rte_mbuf_dyn_rx_timestamp_register(&port->stamp_offset, &port->stamp_flag) == 0);
        port->stamps = PORT_STAMPS_TIME;
    }
}

/* Packets arrive at all queues of both ports, with increasing times in each queue, and are recorded. */
static void record_all(struct world *world, struct offered *offered, unsigned seed) {
    struct bridge bridge = world_bridge(world);
    bridge_record(&bridge, 0, 0, 0);
    while (offered->count < PACKETS - 2 * WORLD_QUEUES * 12) {
        for (unsigned i = 0; i < 2 * WORLD_QUEUES; ++i) {
            int64_t ts_ns = world->time.simulated_ns;
            for (int packets = rand_r(&seed) % 12; packets > 0; --packets) {
                ts_ns += rand_r(&seed) % 50;
                offer(world, offered, i % 2, (uint8_t)(i / 2), ts_ns);
            }
        }
        world->time.simulated_ns += 1000;
        while (bridge_poll(&bridge)) {
        }
        world_drain(world, NULL, NULL);
    }
    bridge_stop(&bridge, RECORDING_END_STOP);
    CHECK(recording_packets(&world->recording) == offered->count);
}

/* Checks that packets of a port and queue have the order in which they arrived, and leave by the same queue.
 */
static void check_order_of_queues(const struct world *world, const struct offered *offered) {
    bool known[2][WORLD_QUEUES] = {{false}};
    uint32_t latest[2][WORLD_QUEUES];
    for (uint64_t i = 0; i < offered->count; ++i) {
        const struct packet *packet = recording_at(&world->recording, i);
        const uint32_t number = number_of(packet->mbuf, offered);
        const unsigned port = offered->port[number], queue = offered->queue[number];
        CHECK(packet->port == 1 - port && packet->queue == queue);
        CHECK(!known[port][queue] || number > latest[port][queue]);
        known[port][queue] = true;
        latest[port][queue] = number;
        if (!packet->first) {
            const struct packet *before = recording_at(&world->recording, i - 1);
            CHECK(before->port == packet->port && before->queue == packet->queue);
        }
    }
}

/* Returns the longest time by which a packet is sent early: it is sent with its burst, at the time of the
 * first packet. */
static int64_t largest_advance(const struct replay *replay) {
    const struct plan *plan = &replay->plan;
    int64_t first_ns = 0, largest = 0;
    for (uint32_t i = 0; i < plan->packets; ++i) {
        const int64_t at_ns = plan->entry[i].offset_ns;
        if (replay->departed[i].flags & DEPARTED_BURST_FIRST) {
            first_ns = at_ns;
        }
        largest = at_ns - first_ns > largest ? at_ns - first_ns : largest;
    }
    return largest;
}

/* Checks the fields of departure records that identify the packet and its queue (files/save.c). */
static void check_queues_of_departures(const struct world *world) {
    char path[] = "/tmp/test_queues.XXXXXX";
    struct fault fault = {""};
    uint8_t record[40];
    uint64_t packet = 0, found = 0;
    uint16_t port = 0, queue = 0;
    const int fd = mkstemp(path);
    CHECK(fd >= 0 && close(fd) == 0);
    CHECK(save_departures(&world->replay, path, &fault) == 0);
    FILE *from = fopen(path, "rb");
    CHECK(from && fseek(from, 8, SEEK_SET) == 0); /* the magic number */
    for (; fread(record, sizeof record, 1, from) == 1; ++found) {
        memcpy(&port, record + 4, sizeof port);
        memcpy(&packet, record + 8, sizeof packet);
        memcpy(&queue, record + 36, sizeof queue);
        const struct packet *sent = recording_at(&world->recording, packet);
        CHECK(packet == found && port == sent->port && queue == sent->queue);
    }
    CHECK(found == world->replay.plan.packets && fclose(from) == 0 && unlink(path) == 0);
}

/* Runs the recording and checks what each Tx queue has sent. */
static void check_replay(struct world *world, const struct offered *offered) {
    struct summary summary;
    world_start(world, 1, 1000000);
    CHECK(world->replay.plan.time_reversed == 0);
    world_run(world, NULL, NULL, 1);
    summarize(&summary, &world->replay);
    CHECK(summary.balanced && summary.monotone && summary.outcome[OUTCOME_SENT] == offered->count);
    CHECK(summary.p99_ns <= 0 && summary.largest_ns == largest_advance(&world->replay));
    check_queues_of_departures(world);
    for (unsigned port = 0; port < 2; ++port) {
        for (uint8_t queue = 0; queue < WORLD_QUEUES; ++queue) {
            uint32_t next = 0, sent = 0;
            void *mbuf = NULL;
            for (; rte_ring_dequeue(world->out_queue[port][queue], &mbuf) == 0; ++sent, ++next) {
                while (offered->port[next] == port || offered->queue[next] != queue) {
                    CHECK(++next < offered->count);
                }
                CHECK(world_is_packet(mbuf, next, BYTES));
                rte_pktmbuf_free(mbuf);
            }
            CHECK(sent > 0 && sent == world->ports.port[port].sent[queue]);
        }
    }
}

static void test_packets_of_all_queues_are_merged_by_their_timestamps(void) {
    for (unsigned seed = 1; seed <= 3; ++seed) {
        static struct offered offered;
        struct world world = {0};
        uint64_t reversed = 0;
        offered = (struct offered){.count = 0};
        open_bridge(&world, true);
        record_all(&world, &offered, seed);
        for (uint64_t i = 1; i < offered.count; ++i) {
            reversed +=
                recording_at(&world.recording, i)->ts_ns < recording_at(&world.recording, i - 1)->ts_ns;
        }
        CHECK(world.recording.timestamps == TIMESTAMPS_DEVICE && reversed > 0);
        recording_merge(&world.recording);
        for (uint64_t i = 1; i < offered.count; ++i) {
            const struct packet *packet = recording_at(&world.recording, i);
            CHECK(packet->ts_ns >= recording_at(&world.recording, i - 1)->ts_ns);
            CHECK(packet->ts_ns == offered.ts_ns[number_of(packet->mbuf, &offered)]);
        }
        check_order_of_queues(&world, &offered);
        check_replay(&world, &offered);
        world_close(&world);
    }
}

static void test_transmission_order_is_kept_without_timestamps(void) {
    static struct offered offered;
    struct world world = {0};
    struct rte_mbuf *before[PACKETS];
    open_bridge(&world, false);
    record_all(&world, &offered, 9);
    CHECK(world.recording.timestamps == TIMESTAMPS_BURST);
    for (uint64_t i = 0; i < offered.count; ++i) {
        before[i] = recording_at(&world.recording, i)->mbuf;
    }
    recording_merge(&world.recording);
    for (uint64_t i = 0; i < offered.count; ++i) {
        CHECK(recording_at(&world.recording, i)->mbuf == before[i]);
    }
    check_order_of_queues(&world, &offered);
    check_replay(&world, &offered);
    world_close(&world);
}

static void test_a_queue_keeps_its_order_if_its_times_go_back(void) {
    static const struct {
        int64_t ts_ns;
        uint8_t queue;
        bool first;
    } recorded[] = {{10, 0, true}, {5, 0, false}, {20, 0, false}, {7, 1, true}, {12, 1, false}},
      merged[] = {{7, 1, true}, {10, 0, true}, {5, 0, false}, {12, 1, true}, {20, 0, true}};
    struct world world = {.options = {.bridge = true}};
    world_open(&world);
    for (uint32_t i = 0; i < RTE_DIM(recorded); ++i) {
        const struct packet packet = {.mbuf = world_packet(&world, i, BYTES),
                                      .ts_ns = recorded[i].ts_ns,
                                      .queue = recorded[i].queue,
                                      .first = recorded[i].first};
        recording_add(&world.recording, &packet, TIMESTAMPS_DEVICE);
    }
    recording_merge(&world.recording);
    for (uint32_t i = 0; i < RTE_DIM(merged); ++i) {
        const struct packet *packet = recording_at(&world.recording, i);
        CHECK(packet->ts_ns == merged[i].ts_ns && packet->queue == merged[i].queue);
        CHECK(packet->first == merged[i].first);
    }
    world_close(&world);
}

/* A rolling recording that has removed packets does not begin at the start of its memory. */
static void test_rolling_recordings_are_merged(void) {
    static struct offered offered;
    struct world world = {0};
    open_bridge(&world, true);
    struct bridge bridge = world_bridge(&world);
    world.recording.capacity = 50;
    bridge_record(&bridge, 0, 0, 1000000000);
    for (unsigned i = 0; i < 200; ++i) {
        offer(&world, &offered, 0, (uint8_t)(i % 2), START_NS + (i % 2 ? i : i + 3));
        bridge_poll(&bridge);
        world_drain(&world, NULL, NULL);
    }
    bridge_stop(&bridge, RECORDING_END_STOP);
    recording_merge(&world.recording);
    CHECK(recording_packets(&world.recording) == 50 && bridge.removed_memory == 150);
    for (uint64_t i = 1; i < 50; ++i) {
        CHECK(recording_at(&world.recording, i)->ts_ns >= recording_at(&world.recording, i - 1)->ts_ns);
    }
    world_close(&world);
}

static void test_drops_are_counted_by_queue(void) {
    static struct offered offered;
    struct world world = {.ring_size = 64};
    open_bridge(&world, false);
    struct bridge bridge = world_bridge(&world);
    for (unsigned round = 0; round < 2; ++round) {
        for (unsigned i = 0; i < 50; ++i) {
            offer(&world, &offered, 0, 1, 0);
        }
        for (unsigned i = 0; i < 10; ++i) {
            offer(&world, &offered, 0, 3, 0);
        }
        for (unsigned polls = 0; polls < 20; ++polls) {
            bridge_poll(&bridge);
            world.time.simulated_ns += 1000;
        }
    }
    const struct traffic *traffic = world.ports.port[0].traffic;
    const struct traffic sum = port_traffic(traffic);
    CHECK(traffic[1].received == 100 && traffic[1].forwarded == 63 && traffic[1].ring_full == 37);
    CHECK(traffic[3].received == 20 && traffic[3].forwarded == 20 && traffic[3].ring_full == 0);
    CHECK(traffic[0].received == 0 && traffic[2].received == 0);
    CHECK(sum.received == 120 && sum.forwarded == 83 && sum.ring_full == 37);
    world_drain(&world, NULL, NULL);
    world_close(&world);
}

#define FLOWS 23
#define FLOW_AT 29 /* the last byte of the IPv4 source address */

/* Returns a packet of a flow: IPv4, for some flows in a VLAN, with a sequence number. */
static struct rte_mbuf *make_flow_packet(const struct world *world, uint8_t flow, uint8_t sequence) {
    struct rte_mbuf *mbuf = world_packet(world, 0, BYTES);
    uint8_t *bytes = rte_pktmbuf_mtod(mbuf, uint8_t *);
    const bool tagged = flow % 5 == 0;
    memset(bytes, 0, BYTES);
    bytes[5] = sequence; /* the MAC addresses of a flow may differ, for example after a router */
    if (tagged) {
        bytes[12] = 0x81;
        bytes[15] = flow;
    }
    bytes[tagged ? 16 : 12] = 8;
    bytes[FLOW_AT + (tagged ? 4 : 0)] = flow;
    bytes[BYTES - 2] = flow;
    bytes[BYTES - 1] = sequence;
    return mbuf;
}

static void test_a_flow_is_sent_by_one_queue_in_its_order(void) {
    char path[] = "/tmp/test_queues.XXXXXX";
    struct world saved = {.options = {.ports = 1}}, world = {.options = {.ports = 1, .queues = WORLD_QUEUES}};
    struct fault fault = {""};
    struct loaded loaded;
    struct summary summary;
    unsigned next[FLOWS] = {0}, queue_of[FLOWS], used = 0;
    world_open(&saved);
    for (unsigned i = 0; i < 10 * FLOWS; ++i) {
        const struct packet packet = {
            .mbuf = make_flow_packet(&saved, i % FLOWS, i / FLOWS), .ts_ns = i / 7, .first = i % 7 == 0};
        recording_add(&saved.recording, &packet, TIMESTAMPS_FILE);
    }
    const int fd = mkstemp(path);
    CHECK(fd >= 0 && close(fd) == 0);
    CHECK(save_recording(&saved.recording, &saved.ports, path, &fault) == 0);
    world_open(&world);
    CHECK(load_file(&world.recording, path, &world.ports, &world.options, &loaded, &fault) == 0);
    unlink(path);
    world_start(&world, 1, 1000000);
    world_run(&world, NULL, NULL, 1);
    summarize(&summary, &world.replay);
    CHECK(summary.balanced && summary.outcome[OUTCOME_SENT] == 10 * FLOWS);
    for (unsigned queue = 0; queue < WORLD_QUEUES; ++queue) {
        void *mbuf = NULL;
        uint64_t sent = 0;
        for (; rte_ring_dequeue(world.out_queue[0][queue], &mbuf) == 0; ++sent) {
            const uint8_t *bytes = rte_pktmbuf_mtod((struct rte_mbuf *)mbuf, const uint8_t *);
            const uint8_t flow = bytes[BYTES - 2], sequence = bytes[BYTES - 1];
            CHECK(sequence == next[flow]++);
            CHECK(sequence == 0 || queue_of[flow] == queue);
            queue_of[flow] = queue;
            rte_pktmbuf_free(mbuf);
        }
        CHECK(sent == world.ports.port[0].sent[queue]);
        used += sent > 0;
    }
    CHECK(used == WORLD_QUEUES);
    world_close(&world);
    world_close(&saved);
}

static void test_short_packets_are_assigned_to_a_queue(void) {
    struct world world = {.options = {.ports = 1}};
    world_open(&world);
    for (uint16_t size = 0; size <= BYTES; ++size) {
        struct rte_mbuf *mbuf = make_flow_packet(&world, size % FLOWS, 0);
        mbuf->data_len = size;
        CHECK(flow_queue(mbuf, 3) < 3 && flow_queue(mbuf, 1) == 0);
        rte_pktmbuf_free(mbuf);
    }
    world_close(&world);
}

static void test_more_queues_than_the_device_has_are_rejected(void) {
    struct world world = {.options = {.ports = 1, .queues = 2}};
    struct options options;
    struct ports ports = {.count = 0};
    struct fault fault = {""};
    world_open(&world);
    options = world.options;
    options.queues = 3;
    CHECK(ports_open(&ports, &options, 1024, &fault) == -1);
    CHECK(strstr(fault.text, "has 2 Tx queues, not 3; lower --queues"));
    ports_close(&ports);
    options.bridge = true;
    CHECK(ports_open(&ports, &options, 1024, &fault) == -1);
    CHECK(strstr(fault.text, "has 2 Rx queues, not 3; lower --queues"));
    ports_close(&ports);
    world_close(&world);
}

static unsigned still_full; /* number of further polls that find the latest packet in the queue */

static int fake_descriptor_status(void *queue, uint16_t offset) {
    (void)queue;
    CHECK(offset == 1023);
    return still_full == 0 ? RTE_ETH_TX_DESC_DONE : (--still_full, RTE_ETH_TX_DESC_FULL);
}

static void test_port_drain_waits_for_the_queue_of_the_device(void) {
    struct world world = {.options = {.ports = 1, .depth = 1024}};
    world_open(&world);
    const struct port *port = &world.ports.port[0];
    CHECK(port_drain(port->id, 0, port->tx_depth, false,
                     0)); /* the driver of rings does not report its queue */
    const eth_tx_descriptor_status_t none = rte_eth_fp_ops[port->id].tx_descriptor_status;
    rte_eth_fp_ops[port->id].tx_descriptor_status = fake_descriptor_status;
    still_full = 5;
    CHECK(port_drain(port->id, 0, port->tx_depth, false, SECOND) && still_full == 0);
    still_full = 5;
    CHECK(!port_drain(port->id, 0, port->tx_depth, false, 2000000) && still_full > 0);
    rte_eth_fp_ops[port->id].tx_descriptor_status = none;
    world_close(&world);
}

int main(void) {
    world_environment(512, 0);
    test_packets_of_all_queues_are_merged_by_their_timestamps();
    test_transmission_order_is_kept_without_timestamps();
    test_a_queue_keeps_its_order_if_its_times_go_back();
    test_rolling_recordings_are_merged();
    test_drops_are_counted_by_queue();
    test_a_flow_is_sent_by_one_queue_in_its_order();
    test_short_packets_are_assigned_to_a_queue();
    test_more_queues_than_the_device_has_are_rejected();
    test_port_drain_waits_for_the_queue_of_the_device();
    puts("test_queues: ok");
    return 0;
}
