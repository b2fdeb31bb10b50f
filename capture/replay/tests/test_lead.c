/* Tests of the lead time on a simulated clock: the lead that a device has is measured exactly, and a replay
 * departs at its requested times. */
#include <string.h>

#include "control/summary.h"
#include "engine/lead.h"
#include "ring_world.h"

#define LEAD_NS 7321
#define GAP_NS 20000

/* A device that receives `lead_ns` after the packet was sent, with jitter; every `lost`-th packet is lost. */
struct device {
    const struct world *world;
    int64_t lead_ns, jitter_ns;
    unsigned lost, received, seed;
    int stamp_offset;
    uint64_t stamp_flag;
    const struct rte_eth_rxtx_callback *callback;
};

/* Jitter whose median is 0: every second probe is exact, the others are early or late. */
static int64_t jitter(struct device *device) {
    const unsigned number = device->received;
    const int64_t size = device->jitter_ns ? rand_r(&device->seed) % device->jitter_ns : 0;
    return number % 4 == 0 ? size : number % 4 == 2 ? -size : 0;
}

/* A callback of DPDK: stamps received packets, as the driver of the device does. */
static uint16_t stamp(uint16_t port, uint16_t queue, struct rte_mbuf **mbuf, uint16_t count, uint16_t room,
                      void *user) {
    struct device *device = user;
    uint16_t kept = 0;
    (void)port, (void)queue, (void)room;
    for (uint16_t i = 0; i < count; ++i) {
        ++device->received;
        if (device->lost && device->received % device->lost == 0) {
            rte_pktmbuf_free(mbuf[i]);
            continue;
        }
        *RTE_MBUF_DYNFIELD(mbuf[i], device->stamp_offset, rte_mbuf_timestamp_t *) =
            (uint64_t)(device->world->time.simulated_ns + device->lead_ns + jitter(device));
        mbuf[i]->ol_flags |= device->stamp_flag;
        mbuf[kept++] = mbuf[i];
    }
    return kept;
}

/* Opens a world whose port 0 is looped back to itself through a device. */
static void open_looped(struct world *world, struct device *device) {
    world->options.pacing = PACING_SINGLE;
    world->looped = true;
    world_open(world);
    struct port *port = &world->ports.port[0];
    CHECK(rte_mbuf_dyn_rx_timestamp_register(&port->stamp_offset, &port->stamp_flag) == 0);
    port->stamps = PORT_STAMPS_TIME;
    device->world = world;
    device->stamp_offset = port->stamp_offset;
    device->stamp_flag = port->stamp_flag;
    device->callback = rte_eth_add_rx_callback(port->id, 0, stamp, device);
    CHECK(device->callback);
}

static void close_looped(struct world *world, const struct device *device) {
    CHECK(rte_eth_remove_rx_callback(world->ports.port[0].id, 0, device->callback) == 0);
    world_close(world);
}

static int measure(struct world *world, struct fault *fault) {
    struct port *port = &world->ports.port[0];
    return lead_measure(port, port, world->ports.pool, &world->time, &lead_driver_calls, fault);
}

static void expect_at_requested(void *user, unsigned port, struct rte_mbuf *mbuf, int64_t now_ns) {
    unsigned *received = user;
    (void)port;
    CHECK(now_ns + LEAD_NS == START_NS + (int64_t)*received * GAP_NS);
    ++*received;
    rte_pktmbuf_free(mbuf);
}

static void test_injected_lead_is_measured_exactly_and_compensated(void) {
    static const int64_t jitters[] = {0, 500};
    for (unsigned i = 0; i < RTE_DIM(jitters); ++i) {
        struct device device = {.lead_ns = LEAD_NS, .jitter_ns = jitters[i], .seed = i, .lost = i ? 7 : 0};
        struct world world = {.options = {.ports = 1}};
        struct fault fault = {""};
        unsigned received = 0;
        open_looped(&world, &device);
        CHECK(measure(&world, &fault) == 0);
        const struct lead *lead = &world.ports.port[0].lead;
        CHECK(lead->source == LEAD_LOOPBACK && lead->device && lead->ns == LEAD_NS);
        CHECK(lead->low_ns >= LEAD_NS - jitters[i] && lead->high_ns <= LEAD_NS + jitters[i]);
        CHECK((lead->low_ns < LEAD_NS && lead->high_ns > LEAD_NS) == (jitters[i] > 0));
        CHECK((lead->stamped < lead->probes) == (device.lost > 0));
        for (uint32_t packet = 0; packet < 100; ++packet) {
            world_add(&world, packet, 60, (int64_t)packet * GAP_NS, 0, true);
        }
        world_start(&world, 1, 1000000);
        world_run(&world, expect_at_requested, &received, 0);
        struct summary summary;
        summarize(&summary, &world.replay);
        CHECK(received == 100 && summary.balanced && summary.monotone && summary.largest_ns == 0);
        CHECK(world.replay.departed[0].ns == START_NS);
        close_looped(&world, &device);
    }
}

static void test_without_device_timestamps_the_time_of_reception_counts(void) {
    struct device device = {.lead_ns = LEAD_NS};
    struct world world = {.options = {.ports = 1}};
    struct fault fault = {""};
    open_looped(&world, &device);
    world.ports.port[0].stamps = PORT_STAMPS_NONE;
    CHECK(measure(&world, &fault) == 0);
    const struct lead *lead = &world.ports.port[0].lead;
    CHECK(lead->source == LEAD_LOOPBACK && !lead->device && lead->ns == 0);
    close_looped(&world, &device);
}

static void test_probes_that_do_not_arrive_are_an_error(void) {
    struct device device = {.lead_ns = LEAD_NS, .lost = 1};
    struct world world = {.options = {.ports = 1}};
    struct fault fault = {""};
    open_looped(&world, &device);
    CHECK(measure(&world, &fault) == -1 && strstr(fault.text, "0 of 10 probes"));
    CHECK(world.ports.port[0].lead.source == LEAD_UNKNOWN && world.ports.port[0].lead.ns == 0);
    close_looped(&world, &device);
}

static void test_a_lead_before_the_departure_is_an_error(void) {
    struct device device = {.lead_ns = -50};
    struct world world = {.options = {.ports = 1}};
    struct fault fault = {""};
    open_looped(&world, &device);
    CHECK(measure(&world, &fault) == -1 && strstr(fault.text, "-50 ns is impossible"));
    close_looped(&world, &device);
}

/* A driver with transmit timestamps, whose clock is 1 h ahead of the system clock. */
static struct {
    const struct world *world;
    unsigned reads;
} nic;

static struct timespec nic_time(int64_t after_ns) {
    const int64_t ns = nic.world->time.simulated_ns + 3600000000000LL + after_ns;
    return (struct timespec){ns / 1000000000, ns % 1000000000};
}

static int nic_enable(uint16_t port) {
    (void)port;
    return 0;
}

static int nic_read_stamp(uint16_t port, struct timespec *stamp) {
    (void)port;
    *stamp = nic_time(LEAD_NS);
    return ++nic.reads % 3 == 0 ? 0 : -EINVAL; /* it is there after some reads */
}

static int nic_read_time(uint16_t port, struct timespec *now) {
    (void)port;
    *now = nic_time(0);
    return 0;
}

static void test_lead_is_measured_by_transmit_timestamps_or_unknown(void) {
    static const struct lead_calls calls = {nic_enable, nic_read_stamp, nic_read_time};
    struct world world = {.options = {.ports = 1, .pacing = PACING_SINGLE}};
    struct fault fault = {""};
    world_open(&world);
    struct port *port = &world.ports.port[0];
    nic.world = &world;
    CHECK(lead_measure(port, NULL, world.ports.pool, &world.time, &calls, &fault) == 0);
    CHECK(port->lead.source == LEAD_TRANSMIT && port->lead.device && port->lead.ns == LEAD_NS);
    world_drain(&world, NULL, NULL);
    /* the driver of rings has no such timestamps */
    CHECK(lead_measure(port, NULL, world.ports.pool, &world.time, &lead_driver_calls, &fault) == 0);
    CHECK(port->lead.source == LEAD_UNKNOWN && port->lead.ns == 0 && port->lead.probes == 0);
    world_close(&world);
}

int main(void) {
    world_environment(256, 0);
    test_injected_lead_is_measured_exactly_and_compensated();
    test_without_device_timestamps_the_time_of_reception_counts();
    test_probes_that_do_not_arrive_are_an_error();
    test_a_lead_before_the_departure_is_an_error();
    test_lead_is_measured_by_transmit_timestamps_or_unknown();
    puts("test_lead: ok");
    return 0;
}
