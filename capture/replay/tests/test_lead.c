/* Tests of the lead time on a simulated clock: the lead time of a device is measured exactly, and the packets
 * of a replay depart at their requested times. */
#include <signal.h>
#include <string.h>

#include "common/signals.h"
#include "control/summary.h"
#include "engine/lead.h"
#include "ring_world.h"

#define LEAD_NS 7321
#define GAP_NS 20000

/* A device that receives a packet `lead_ns` after it was sent, with jitter; every `lost`-th packet is lost.
 */
struct device {
    int64_t lead_ns, jitter_ns;
    unsigned lost, received, seed;
    bool unstamped;
    bool by_kernel; /* timestamps of the kernel, not of a NIC */
    bool delays;    /* each packet arrives only when the next one is received */
    struct rte_mbuf *held;
    const struct world *world;
    const struct port *port;
    const struct rte_eth_rxtx_callback *callback;
};

/* Returns jitter whose median is 0: every second probe is exact, the others are early or late. */
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
    (void)queue, (void)room;
    CHECK(rte_eth_promiscuous_get(port) == 1);
    for (uint16_t i = 0; i < count; ++i) {
        ++device->received;
        if (device->lost && device->received % device->lost == 0) {
            rte_pktmbuf_free(mbuf[i]);
            continue;
        }
        *RTE_MBUF_DYNFIELD(mbuf[i], device->port->stamp_offset, rte_mbuf_timestamp_t *) =
            (uint64_t)(device->world->time.simulated_ns + device->lead_ns + jitter(device));
        mbuf[i]->ol_flags |= device->unstamped ? 0 : device->port->stamp_flag;
        struct rte_mbuf *arrived = device->delays ? device->held : mbuf[i];
        device->held = device->delays ? mbuf[i] : NULL;
        if (arrived) {
            mbuf[kept++] = arrived;
        }
    }
    return kept;
}

/* Opens a world whose ports are connected by devices. Port i receives from device i. */
static void open_connected(struct world *world, struct device *device) {
    world->options.pacing = PACING_SINGLE;
    world->looped = !world->crossed;
    world_open(world);
    for (unsigned i = 0; i < world->ports.count; ++i) {
        struct port *port = &world->ports.port[i];
        CHECK(rte_eth_promiscuous_disable(port->id) == 0); /* net_ring begins as promiscuous */
        CHECK(rte_mbuf_dyn_rx_timestamp_register(&port->stamp_offset, &port->stamp_flag) == 0);
        clock_begin(&port->clock, 1e9, START_NS, START_NS); /* a tick is 1 ns */
        port->stamps = device[i].by_kernel ? PORT_STAMPS_TIME : PORT_STAMPS_TICKS;
        device[i].world = world;
        device[i].port = port;
        device[i].callback = rte_eth_add_rx_callback(port->id, 0, stamp, &device[i]);
        CHECK(device[i].callback);
    }
}

static void close_connected(struct world *world, const struct device *device) {
    for (unsigned i = 0; i < world->ports.count; ++i) {
        CHECK(rte_eth_promiscuous_get(world->ports.port[i].id) == 0);
        CHECK(rte_eth_remove_rx_callback(world->ports.port[i].id, 0, device[i].callback) == 0);
    }
    world_close(world);
}

static int measure(struct world *world, struct fault *fault) {
    return lead_measure_all(&world->ports, &world->options, &world->time, fault);
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
        open_connected(&world, &device);
        CHECK(measure(&world, &fault) == 0);
        const struct lead *lead = &world.ports.port[0].lead;
        CHECK(lead->source == LEAD_LOOPBACK && lead->stamps == LEAD_STAMPS_DEVICE && lead->ns == LEAD_NS);
        CHECK(lead->low_ns >= LEAD_NS - jitters[i] && lead->high_ns <= LEAD_NS + jitters[i]);
        CHECK((lead->low_ns < LEAD_NS && lead->high_ns > LEAD_NS) == (jitters[i] > 0));
        CHECK((lead->stamped < lead->probes) == (device.lost > 0) && lead->arrived == lead->stamped);
        for (uint32_t packet = 0; packet < 100; ++packet) {
            world_add(&world, packet, 60, (int64_t)packet * GAP_NS, 0, true);
        }
        world_start(&world, 1, 1000000);
        world_run(&world, expect_at_requested, &received, 0);
        struct summary summary;
        summarize(&summary, &world.replay);
        CHECK(received == 100 && summary.balanced && summary.monotone && summary.largest_ns == 0);
        CHECK(world.replay.departed[0].ns == START_NS);
        CHECK(world.replay.departed[0].flags & DEPARTED_HARDWARE);
        close_connected(&world, &device);
    }
}

static void test_lead_from_kernel_timestamps_is_not_marked_as_hardware(void) {
    struct device device = {.lead_ns = LEAD_NS, .by_kernel = true};
    struct world world = {.options = {.ports = 1}};
    struct fault fault = {""};
    open_connected(&world, &device);
    CHECK(measure(&world, &fault) == 0);
    const struct lead *lead = &world.ports.port[0].lead;
    CHECK(lead->source == LEAD_LOOPBACK && lead->stamps == LEAD_STAMPS_KERNEL && lead->ns == LEAD_NS);
    world_add(&world, 0, 60, 0, 0, true);
    world_start(&world, 1, 1000000);
    world_run(&world, NULL, NULL, 0);
    CHECK(world.replay.departed[0].ns == START_NS);
    CHECK(world.replay.departed[0].flags == (DEPARTED_OWN_STAMP | DEPARTED_BURST_FIRST));
    world_drain(&world, NULL, NULL);
    close_connected(&world, &device);
}

#define PACKETS 100
#define LOOPS 3
#define SHORT_GAP_NS 100 /* less than the difference of the leads */

/* Arrivals of the packets of all loops. */
struct arrivals {
    const struct device *device; /* by receiving port */
    int64_t ns[LOOPS][PACKETS];
    unsigned loops[PACKETS]; /* number of arrivals of each packet */
};

static void note_arrival(void *user, unsigned port, struct rte_mbuf *mbuf, int64_t now_ns) {
    struct arrivals *arrivals = user;
    uint32_t packet = 0;
    while (!world_is_packet(mbuf, packet, 60)) {
        CHECK(++packet < PACKETS);
    }
    CHECK(port == packet % 2 && arrivals->loops[packet] < LOOPS);
    arrivals->ns[arrivals->loops[packet]++][packet] = now_ns + arrivals->device[1 - port].lead_ns;
    rte_pktmbuf_free(mbuf);
}

/* Sends packets to two ports in turn. Returns the number of packets that arrived before their predecessor.
 */
static unsigned send_alternating(struct world *world, struct arrivals *arrivals, bool compensated) {
    const int64_t *latest = &arrivals->ns[0][0];
    unsigned reordered = 0;
    world_start(world, LOOPS, 1000000);
    world_run(world, note_arrival, arrivals, 0);
    for (uint32_t loop = 0; loop < LOOPS; ++loop) {
        for (uint32_t packet = 0; packet < PACKETS; ++packet) {
            const int64_t *at = &arrivals->ns[loop][packet];
            const int64_t lead = arrivals->device[1 - packet % 2].lead_ns;
            CHECK(arrivals->loops[packet] == LOOPS);
            CHECK(*at == replay_requested(&world->replay, loop, packet) + (compensated ? 0 : lead));
            reordered += *at < *latest;
            latest = at;
        }
    }
    return reordered;
}

static void test_ports_with_different_leads_keep_their_order_across_ports(void) {
    struct device device[2] = {{.lead_ns = 300}, {.lead_ns = LEAD_NS}};
    struct world world = {.options = {.ports = 2}, .crossed = true};
    struct arrivals before = {.device = device}, after = {.device = device};
    struct summary summary;
    struct fault fault = {""};
    open_connected(&world, device);
    for (uint32_t packet = 0; packet < PACKETS; ++packet) {
        world_add(&world, packet, 60, (int64_t)packet * SHORT_GAP_NS, (uint16_t)(packet % 2), true);
    }
    CHECK(send_alternating(&world, &before, false) > PACKETS);
    world.time.simulated_ns = START_NS - 1000000;
    CHECK(measure(&world, &fault) == 0);
    CHECK(world.ports.port[0].lead.ns == LEAD_NS && world.ports.port[1].lead.ns == 300);
    CHECK(send_alternating(&world, &after, true) == 0);
    summarize(&summary, &world.replay);
    CHECK(summary.balanced && summary.monotone && summary.largest_ns == 0);
    close_connected(&world, device);
}

/* Port 1 has no timestamps, so that the lead of port 0 is unknown, also after that of port 1 was measured. */
static void test_a_lead_does_not_depend_on_the_port_that_received_the_probes(void) {
    struct device device[2] = {{.lead_ns = LEAD_NS}, {.lead_ns = LEAD_NS, .unstamped = true}};
    struct world world = {.options = {.ports = 2}, .crossed = true};
    struct fault fault = {""};
    open_connected(&world, device);
    CHECK(world.ports.port[0].receives && world.ports.port[1].receives);
    for (unsigned i = 0; i < 4; ++i) {
        struct port *port = &world.ports.port[i % 2], *loop = &world.ports.port[1 - i % 2];
        CHECK(lead_measure(port, loop, world.ports.pool, &world.time, &lead_driver_calls, &fault) == 0);
    }
    const struct lead *unknown = &world.ports.port[0].lead, *known = &world.ports.port[1].lead;
    CHECK(unknown->source == LEAD_UNKNOWN && unknown->ns == 0 && unknown->stamps == LEAD_STAMPS_NONE);
    CHECK(known->source == LEAD_LOOPBACK && known->ns == LEAD_NS && known->stamps == LEAD_STAMPS_DEVICE);
    close_connected(&world, device);
}

static void test_packets_before_the_measurement_are_discarded(void) {
    struct device device = {.lead_ns = LEAD_NS};
    struct world world = {.options = {.ports = 1}};
    struct fault fault = {""};
    open_connected(&world, &device);
    for (uint32_t packet = 0; packet < RING_SIZE - 1; ++packet) {
        CHECK(rte_ring_enqueue(world.in[0], world_packet(&world, packet, 60)) == 0);
    }
    CHECK(measure(&world, &fault) == 0);
    const struct port *port = &world.ports.port[0];
    CHECK(port->flushed == RING_SIZE - 1 && port->lead.stamped == port->lead.probes);
    CHECK(device.received == port->flushed + port->lead.probes);
    close_connected(&world, &device);
}

static void test_ports_do_not_receive_without_a_bridge_or_probes(void) {
    struct world world = {.options = {.ports = 2}};
    world_open(&world);
    CHECK(!world.ports.port[0].receives && !world.ports.port[1].receives);
    world_close(&world);
}

static void test_without_timestamps_the_lead_is_unknown(void) {
    struct device device = {.lead_ns = LEAD_NS};
    struct world world = {.options = {.ports = 1}};
    struct fault fault = {""};
    open_connected(&world, &device);
    world.ports.port[0].stamps = PORT_STAMPS_NONE;
    CHECK(measure(&world, &fault) == 0);
    const struct lead *lead = &world.ports.port[0].lead;
    CHECK(lead->source == LEAD_UNKNOWN && lead->ns == 0 && device.received == 0);
    close_connected(&world, &device);
}

static void test_missing_probes_are_an_error(void) {
    struct device device = {.lead_ns = LEAD_NS, .lost = 1};
    struct world world = {.options = {.ports = 1}};
    struct fault fault = {""};
    open_connected(&world, &device);
    CHECK(measure(&world, &fault) == -1 && strstr(fault.text, "0 of 10 probes"));
    CHECK(world.ports.port[0].lead.source == LEAD_UNKNOWN && world.ports.port[0].lead.ns == 0);
    close_connected(&world, &device);
}

static void test_a_late_probe_is_not_confused_with_the_next_one(void) {
    struct device device = {.lead_ns = LEAD_NS, .delays = true};
    struct world world = {.options = {.ports = 1}};
    struct fault fault = {""};
    open_connected(&world, &device);
    CHECK(measure(&world, &fault) == -1 && strstr(fault.text, "0 of 10 probes"));
    CHECK(device.received == 10);
    rte_pktmbuf_free(device.held);
    close_connected(&world, &device);
}

/* The second port only receives the probes of the first one. */
static void test_clocks_begin_after_the_links_of_all_ports_are_up(void) {
    struct world world = {0};
    struct timebase time = {0};
    struct fault fault = {""};
    world_open(&world);
    struct ports ports = {.count = 1, .extras = 1};
    ports.port[0] = world.ports.port[0];
    ports.extra[0] = world.ports.port[1];
    CHECK(rte_eth_dev_set_link_down(ports.extra[0].id) == 0);
    CHECK(ports_check_links(&ports, &fault) == -1);
    CHECK(strncmp(fault.text, ports.extra[0].name, strlen(ports.extra[0].name)) == 0);
    received_signal = SIGTERM; /* ends the wait */
    CHECK(ports_begin_clocks(&ports, &time, &fault) == -1);
    CHECK(strstr(fault.text, "while waiting for the link") && time.tsc_hz == 0);
    received_signal = 0;
    CHECK(rte_eth_dev_set_link_up(ports.extra[0].id) == 0);
    CHECK(ports_begin_clocks(&ports, &time, &fault) == 0 && time.tsc_hz > 0);
    world_close(&world);
}

static void test_a_negative_lead_is_an_error(void) {
    struct device device = {.lead_ns = -50000};
    struct world world = {.options = {.ports = 1}};
    struct fault fault = {""};
    open_connected(&world, &device);
    CHECK(measure(&world, &fault) == -1 && strstr(fault.text, "-50000 ns is impossible"));
    close_connected(&world, &device);
}

static void test_a_negative_lead_within_the_error_of_the_clocks_is_zero(void) {
    struct device device = {.lead_ns = -50};
    struct world world = {.options = {.ports = 1}};
    struct fault fault = {""};
    open_connected(&world, &device);
    CHECK(measure(&world, &fault) == 0);
    CHECK(world.ports.port[0].lead.source == LEAD_LOOPBACK && world.ports.port[0].lead.ns == 0);
    close_connected(&world, &device);
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
    return ++nic.reads % 3 == 0 ? 0 : -EINVAL; /* the stamp is available after some reads */
}

static int nic_read_time(uint16_t port, struct timespec *now) {
    (void)port;
    *now = nic_time(0);
    return 0;
}

static void test_lead_is_measured_with_transmit_timestamps_or_unknown(void) {
    static const struct lead_calls calls = {nic_enable, nic_read_stamp, nic_read_time};
    struct world world = {.options = {.ports = 1, .pacing = PACING_SINGLE}};
    struct fault fault = {""};
    world_open(&world);
    struct port *port = &world.ports.port[0];
    nic.world = &world;
    CHECK(lead_measure(port, NULL, world.ports.pool, &world.time, &calls, &fault) == 0);
    CHECK(port->lead.source == LEAD_TRANSMIT && port->lead.stamps == LEAD_STAMPS_DEVICE);
    CHECK(port->lead.ns == LEAD_NS);
    world_drain(&world, NULL, NULL);
    /* the driver of rings has no such timestamps */
    CHECK(lead_measure(port, NULL, world.ports.pool, &world.time, &lead_driver_calls, &fault) == 0);
    CHECK(port->lead.source == LEAD_UNKNOWN && port->lead.ns == 0 && port->lead.probes == 0);
    world_close(&world);
}

int main(void) {
    world_environment(256, 0);
    test_injected_lead_is_measured_exactly_and_compensated();
    test_lead_from_kernel_timestamps_is_not_marked_as_hardware();
    test_ports_with_different_leads_keep_their_order_across_ports();
    test_a_lead_does_not_depend_on_the_port_that_received_the_probes();
    test_packets_before_the_measurement_are_discarded();
    test_ports_do_not_receive_without_a_bridge_or_probes();
    test_without_timestamps_the_lead_is_unknown();
    test_missing_probes_are_an_error();
    test_a_late_probe_is_not_confused_with_the_next_one();
    test_clocks_begin_after_the_links_of_all_ports_are_up();
    test_a_negative_lead_is_an_error();
    test_a_negative_lead_within_the_error_of_the_clocks_is_zero();
    test_lead_is_measured_with_transmit_timestamps_or_unknown();
    puts("test_lead: ok");
    return 0;
}
