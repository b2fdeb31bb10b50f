/* Tests that a bridge accepts control messages for its own address, counts those that do not fit in its ring,
 * and forwards all other frames. */
#include <string.h>

#include "engine/inband.h"
#include "ring_world.h"

#define BYTES 100

/* The devices of the tests have the address 00:00:00:00:00:00. */
static const struct rte_ether_addr own_address = {{0}}, other_address = {{2, 0, 0, 0, 0, 9}};

static struct rte_mbuf *make_message(const struct world *world, const struct rte_ether_addr *to,
                                     const char *magic, uint32_t number, uint32_t bytes) {
    struct rte_mbuf *mbuf = world_packet(world, number, bytes);
    struct rte_ether_hdr *header = rte_pktmbuf_mtod(mbuf, struct rte_ether_hdr *);
    header->dst_addr = *to;
    header->ether_type = RTE_BE16(INBAND_ETHER_TYPE);
    memcpy(header + 1, magic, strlen(magic));
    return mbuf;
}

static void offer(struct world *world, struct rte_mbuf *mbuf) {
    CHECK(rte_ring_enqueue(world->in[0], mbuf) == 0);
}

/* Opens the world, with in-band control unless `inband` is NULL. */
static struct bridge open_bridge(struct world *world, struct inband *inband) {
    struct fault fault;
    world_open(world);
    CHECK(!inband || inband_open(inband, &world->ports, &fault) == 0);
    return (struct bridge){.options = &world->options,
                           .ports = &world->ports,
                           .time = &world->time,
                           .recording = &world->recording,
                           .inband = inband};
}

static void count_packet(void *user, unsigned port, struct rte_mbuf *mbuf, int64_t now_ns) {
    unsigned *arrived = user;
    (void)now_ns;
    CHECK(port == 1);
    ++*arrived;
    rte_pktmbuf_free(mbuf);
}

/* Polls until nothing arrives. Returns the number of forwarded packets. */
static unsigned forward_all(struct world *world, struct bridge *bridge) {
    const struct traffic *port = &world->ports.port[0].traffic[0];
    unsigned arrived = 0;
    while (bridge_poll(bridge)) {
        world_drain(world, count_packet, &arrived);
    }
    CHECK(port->received == port->forwarded + port->ring_full + port->driver_error + port->too_long +
                                port->control + port->control_dropped);
    CHECK(arrived == port->forwarded);
    return arrived;
}

static void test_messages_to_this_replayer_are_accepted(void) {
    static struct inband inband;
    struct world world = {.options = {.bridge = true}};
    struct bridge bridge = open_bridge(&world, &inband);
    bridge_record(&bridge, 0, 0, 0);
    CHECK(!inband_next(&inband));
    for (uint32_t i = 0; i < 3; ++i) {
        offer(&world, world_packet(&world, i, BYTES));
        offer(&world,
              make_message(&world, &own_address, INBAND_MAGIC, i, i ? INBAND_LONGEST : INBAND_SHORTEST));
    }
    CHECK(forward_all(&world, &bridge) == 3 && recording_packets(&world.recording) == 3);
    CHECK(world.ports.port[0].traffic[0].control == 3);
    for (uint32_t i = 0; i < 3; ++i) {
        const struct inband_frame *frame = inband_next(&inband);
        const uint32_t bytes = i ? INBAND_LONGEST : INBAND_SHORTEST;
        struct rte_mbuf *expected = make_message(&world, &own_address, INBAND_MAGIC, i, bytes);
        CHECK(frame && frame->port == 0 && frame->bytes == bytes);
        CHECK(memcmp(frame->data, rte_pktmbuf_mtod(expected, void *), bytes) == 0);
        rte_pktmbuf_free(expected);
        inband_release(&inband);
    }
    CHECK(!inband_next(&inband));
    world_close(&world);
}

static void test_other_frames_are_forwarded(void) {
    static struct inband inband;
    struct world world = {.options = {.bridge = true}};
    struct bridge bridge = open_bridge(&world, &inband);
    offer(&world, make_message(&world, &other_address, INBAND_MAGIC, 0, BYTES)); /* to another replayer */
    offer(&world, make_message(&world, &own_address, "lead", 0, BYTES));         /* a lead-time probe */
    offer(&world, make_message(&world, &own_address, INBAND_MAGIC, 0, INBAND_SHORTEST - 1));
    struct rte_mbuf *mbuf = make_message(&world, &own_address, INBAND_MAGIC, 0, BYTES);
    rte_pktmbuf_mtod(mbuf, struct rte_ether_hdr *)->ether_type = RTE_BE16(0x88B6);
    offer(&world, mbuf);
    CHECK(forward_all(&world, &bridge) == 4 && !inband_next(&inband));
    world_close(&world);
}

static void test_messages_are_forwarded_if_in_band_control_is_off(void) {
    struct world world = {.options = {.bridge = true}};
    struct bridge bridge = open_bridge(&world, NULL);
    offer(&world, make_message(&world, &own_address, INBAND_MAGIC, 0, BYTES));
    CHECK(forward_all(&world, &bridge) == 1 && world.ports.port[0].traffic[0].control == 0);
    world_close(&world);
}

static void test_messages_that_do_not_fit_are_counted_and_not_forwarded(void) {
    static struct inband inband;
    struct world world = {.options = {.bridge = true}};
    const struct traffic *port = &world.ports.port[0].traffic[0];
    struct bridge bridge = open_bridge(&world, &inband);
    offer(&world, make_message(&world, &own_address, INBAND_MAGIC, 0, INBAND_LONGEST + 1));
    CHECK(forward_all(&world, &bridge) == 0 && port->control_dropped == 1);
    for (uint32_t i = 0; i < INBAND_SLOTS + 5; ++i) {
        offer(&world, make_message(&world, &own_address, INBAND_MAGIC, i, BYTES));
    }
    CHECK(forward_all(&world, &bridge) == 0 && port->control == INBAND_SLOTS && port->control_dropped == 6);
    inband_release(&inband);
    offer(&world, make_message(&world, &own_address, INBAND_MAGIC, 0, BYTES));
    CHECK(forward_all(&world, &bridge) == 0 && port->control == INBAND_SLOTS + 1);
    world_close(&world);
}

int main(void) {
    world_environment(256, 0);
    test_messages_to_this_replayer_are_accepted();
    test_other_frames_are_forwarded();
    test_messages_are_forwarded_if_in_band_control_is_off();
    test_messages_that_do_not_fit_are_counted_and_not_forwarded();
    puts("test_inband: ok");
    return 0;
}
