#include "from_ports.h"

#include <inttypes.h>
#include <rte_cycles.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "common/files/json.h"
#include "common/signals.h"

#define SPINS 256      /* empty bursts before the thread sleeps */
#define SLEEP_NS 20000 /* at 5 million packets per second, 100 descriptors */
#define TIMER_SLACK_NS 1000
#define TICK_NS 2000000
#define DISCIPLINE_NS 100000000ULL
#define SECOND 1e9

static uint64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- the thread of a port ---- */

unsigned receiver_burst(struct receiver *receiver) {
    struct rte_mbuf *mbuf[MONITOR_BURST];
    struct input_packet packet[MONITOR_BURST];
    const uint16_t received = rte_eth_rx_burst(receiver->port.id, 0, mbuf, MONITOR_BURST);
    uint32_t joined = 0;
    for (uint16_t i = 0; i < received; ++i) {
        rte_prefetch0(rte_pktmbuf_mtod(mbuf[i], const void *));
    }
    for (uint16_t i = 0; i < received; ++i) {
        bool unstamped = false;
        const uint32_t bytes = mbuf[i]->pkt_len;
        const uint8_t *at = rte_pktmbuf_mtod(mbuf[i], const uint8_t *);
        uint32_t captured_bytes = mbuf[i]->data_len;
        if (mbuf[i]->nb_segs > 1 && bytes <= receiver->joined_bytes - joined) {
            at = rte_pktmbuf_read(mbuf[i], 0, bytes, receiver->joined + joined);
            joined += bytes;
            captured_bytes = bytes;
        }
        const int64_t now_ns = (int64_t)receive_port_stamp(&receiver->port, mbuf[i], &unstamped);
        packet[i] = (struct input_packet){
            .bytes = at, .captured_bytes = captured_bytes, .wire = bytes, .arrival_ns = now_ns};
    }
    monitor_burst(receiver->monitor, packet, received);
    rte_pktmbuf_free_bulk(mbuf, received);
    return received;
}

static void sleep_briefly(void) {
    const struct timespec pause = {0, SLEEP_NS};
    nanosleep(&pause, NULL);
}

int receiver_run(void *argument) {
    struct receiver *receiver = argument;
    unsigned empty = 0;
    uint64_t since = monotonic_ns();
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
    while (!*receiver->stop) {
        if (receiver_burst(receiver) > 0) {
            empty = 0;
            receiver->idle_ns = 0;
            continue;
        }
        const uint64_t now = monotonic_ns();
        since = empty == 0 ? now : since;
        receiver->idle_ns = now - since;
        if (++empty > SPINS) {
            sleep_briefly();
        } else {
            rte_pause();
        }
    }
    /* Receive the packets that may have arrived before the stop: about as many as the queue has descriptors,
     * so that a busy port cannot delay the end. */
    for (unsigned more = receiver->port.depth, received = 1; more > 0 && received > 0;) {
        received = receiver_burst(receiver);
        more -= received < more ? received : more;
    }
    return 0;
}

/* ---- the main thread ---- */

static int open_port(struct receiver *receiver, unsigned number, struct fault *fault) {
    const struct options *options = receiver->options;
    const bool physical = number >= options->eal.vdevs;
    const struct port_settings settings = {
        .device = physical ? options->eal.pci[number - options->eal.vdevs] : options->eal.vdev[number],
        .physical = physical,
        .queues = 1,
        .depth = options->depth,
        .burst = MONITOR_BURST,
        .max_frame = options->max_frame,
        .clock = options->clock,
    };
    receiver->joined_bytes = MONITOR_BURST * options->max_frame;
    receiver->joined = malloc(receiver->joined_bytes);
    if (!receiver->joined) {
        return fail(fault, "out of memory");
    }
    return receive_port_open(&receiver->port, &settings, fault) == 0
               ? receive_port_start(&receiver->port, fault)
               : -1;
}

/* Starts counting: earlier packets are discarded, and so are those that this machine sends. */
static int begin(struct receiver *receiver, struct fault *fault) {
    packet_sockets_find(&receiver->sockets, receiver->port.interface);
    const int error = packet_sockets_ignore_outgoing(&receiver->sockets);
    if (error) {
        return fail(fault, "%s: outgoing packets cannot be ignored: %s", receiver->port.name,
                    strerror(error));
    }
    receive_port_flush(&receiver->port);
    packet_sockets_count(&receiver->sockets);
    receiver->sockets.dropped = 0;
    rte_eth_stats_reset(receiver->port.id);
    clock_watch_begin(&receiver->clock, clock_watch_read());
    receiver->checked_ns = (int64_t)receive_port_now(&receiver->port);
    return 0;
}

static void count_losses(struct receiver *receiver) {
    struct rte_eth_stats stats;
    packet_sockets_count(&receiver->sockets);
    receiver->kernel_dropped = receiver->sockets.dropped;
    if (rte_eth_stats_get(receiver->port.id, &stats) == 0) {
        receiver->missed = stats.imissed + stats.rx_nombuf;
    }
}

static void print_flow(const struct monitor *monitor, uint32_t index) {
    const struct flow *flow = &monitor->arrays.flow[index];
    /* The port's thread may change the counts while they are read. */
    const uint64_t packets = __atomic_load_n(&flow->packets, __ATOMIC_RELAXED);
    const uint64_t unique = __atomic_load_n(&flow->unique, __ATOMIC_RELAXED);
    const int64_t span = __atomic_load_n(&flow->next, __ATOMIC_RELAXED) - flow->lowest;
    const int64_t missing = packets > 0 ? span - (int64_t)unique : 0;
    printf("{\"flow\": %u, \"packets\": %" PRIu64 ", \"missing\": %" PRId64 ", \"duplicates\": %" PRIu64
           ", \"reordered\": %" PRIu64 ", \"latency_ns\": %" PRId64 ", \"jitter_ns\": %" PRIu64 "}",
           index, packets, missing > 0 ? missing : 0, flow->duplicates, flow->reordered,
           flow->last_latency_ns, flow->jitter_16 / 16);
}

/* Prints at most `max_flows` flows that have packets, among the first 4,096 flows. */
static void print_flows(const struct monitor *monitor, unsigned max_flows) {
    unsigned printed = 0;
    for (uint32_t i = 0; i < monitor->arrays.flows && i < 4096 && printed < max_flows; ++i) {
        if (__atomic_load_n(&monitor->arrays.flow[i].packets, __ATOMIC_RELAXED) > 0) {
            printf(printed++ ? ", " : "");
            print_flow(monitor, i);
        }
    }
}

static void print_port(const struct receiver *receiver, unsigned flows) {
    const struct port_counts *counts = &receiver->monitor->counts;
    uint64_t malformed = 0;
    for (unsigned i = 0; i < MALFORMED_REASONS; ++i) {
        malformed += counts->malformed[i];
    }
    fputs("{\"name\": ", stdout);
    json_text(stdout, receiver->port.name);
    printf(", \"received\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"filtered\": %" PRIu64
           ", \"foreign\": %" PRIu64 ", \"invalid\": %" PRIu64 ", \"stamped\": %" PRIu64
           ", \"unique\": %" PRIu64 ", \"duplicates\": %" PRIu64 ", \"reordered\": %" PRIu64
           ", \"unclassified\": %" PRIu64 ", \"bit_errors\": %" PRIu64 ", \"malformed\": %" PRIu64
           ", \"dropped\": %" PRIu64 ", \"flows\": [",
           counts->received, counts->bytes, counts->filtered, counts->foreign, counts->invalid,
           counts->stamped, counts->unique, counts->duplicates, counts->reordered, counts->unclassified,
           counts->bit_errors, malformed, receiver->kernel_dropped + receiver->missed);
    print_flows(receiver->monitor, flows);
    fputs("]}", stdout);
}

static void print_event(const char *event, struct receiver *receiver, unsigned ports, unsigned flows) {
    printf("{\"event\": \"%s\", \"ports\": [", event);
    for (unsigned i = 0; i < ports; ++i) {
        count_losses(&receiver[i]);
        fputs(i ? ", " : "", stdout);
        print_port(&receiver[i], flows);
    }
    fputs("]}\n", stdout);
    fflush(stdout);
}

static bool is_over(const struct receiver *receiver, unsigned ports, uint64_t begin, uint64_t now) {
    const struct options *options = receiver->options;
    uint64_t idle = UINT64_MAX;
    for (unsigned i = 0; i < ports; ++i) {
        const uint64_t port = receiver[i].idle_ns;
        idle = port < idle ? port : idle;
    }
    return received_signal ||
           (options->duration_s > 0 && now - begin >= (uint64_t)(options->duration_s * SECOND)) ||
           (options->idle_s > 0 && idle >= (uint64_t)(options->idle_s * SECOND));
}

/* Corrects the clocks of the ports, and notes whether the system clock was stepped. */
static void follow_clock(struct receiver *receiver, unsigned ports) {
    const struct clock_reading reading = clock_watch_read();
    for (unsigned i = 0; i < ports; ++i) {
        struct receiver *current = &receiver[i];
        const bool stepped = clock_watch_update(&current->clock, reading);
        receive_port_discipline(&current->port);
        const int64_t now_ns = (int64_t)receive_port_now(&current->port);
        if (stepped) {
            const int64_t from_ns = now_ns < current->checked_ns ? now_ns : current->checked_ns;
            const bool first = current->clock.steps == 1;
            current->stepped_from_ns =
                first || from_ns < current->stepped_from_ns ? from_ns : current->stepped_from_ns;
        }
        current->checked_ns = now_ns;
    }
}

static void supervise(struct receiver *receiver, unsigned ports) {
    const struct options *options = receiver->options;
    const struct timespec tick = {0, TICK_NS};
    const uint64_t begin = monotonic_ns(), period_ns = (uint64_t)(options->every_s * SECOND);
    uint64_t disciplined = begin, printed = begin;
    print_event("listening", receiver, ports, 0);
    for (uint64_t now = begin; !is_over(receiver, ports, begin, now); now = monotonic_ns()) {
        if (now - disciplined >= DISCIPLINE_NS) {
            disciplined = now;
            follow_clock(receiver, ports);
        }
        if (period_ns && now - printed >= period_ns) {
            printed = now;
            print_event("counts", receiver, ports, options->live_flows);
        }
        nanosleep(&tick, NULL);
    }
}

static int receive(struct receiver *receiver, unsigned ports, _Atomic bool *stop, struct fault *fault) {
    for (unsigned i = 0; i < ports; ++i) {
        receiver[i].stop = stop;
        if (open_port(&receiver[i], i, fault) != 0) {
            return -1;
        }
    }
    for (unsigned i = 0; i < ports; ++i) {
        if (begin(&receiver[i], fault) != 0) {
            return -1;
        }
        if (rte_eal_remote_launch(receiver_run, &receiver[i], i + 1) != 0) {
            return fail(fault, "%s: cannot start its thread", receiver[i].port.name);
        }
    }
    supervise(receiver, ports);
    *stop = true;
    rte_eal_mp_wait_lcore();
    follow_clock(receiver, ports);
    for (unsigned i = 0; i < ports; ++i) {
        count_losses(&receiver[i]);
    }
    return 0;
}

int monitor_ports(struct receiver *receiver, unsigned ports, struct fault *fault) {
    static _Atomic bool stop;
    const int status = receive(receiver, ports, &stop, fault);
    stop = true; /* for threads that still run after a failure */
    rte_eal_mp_wait_lcore();
    for (unsigned i = 0; i < ports; ++i) {
        if (*receiver[i].port.driver) {
            receive_port_close(&receiver[i].port);
        }
        free(receiver[i].joined);
    }
    return status;
}
