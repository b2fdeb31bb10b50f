#include "sender.h"

#include <errno.h>
#include <rte_launch.h>
#include <string.h>
#include <time.h>

#include "common/ports/drain.h"
#include "common/signals.h"
#include "engine/worker.h"

#define POLLING_LCORE 1
#define BEFORE_START_NS 50000000LL /* time for the polling thread to start */
#define TICK_NS 20000000LL
#define CACHED_MBUFS 4096

static void sleep_for(int64_t ns) {
    const struct timespec pause = {0, ns};
    nanosleep(&pause, NULL);
}

/* The polling thread. */
static int poll(void *argument) {
    struct sender *sender = argument;
    if (sender->priority) {
        worker_set_priority(sender->priority);
    }
    while (transmission_poll(&sender->transmission)) {
    }
    return 0;
}

static int check_start(const struct arguments *arguments, int64_t now, struct fault *fault) {
    return arguments->start_ns && (int64_t)arguments->start_ns <= now
               ? fail(fault, "--start-ns %llu is in the past; choose a later time",
                      (unsigned long long)arguments->start_ns)
               : 0;
}

static int check_longest(const struct port *port, const struct model *model, struct fault *fault) {
    return model->longest > port->longest + RTE_VLAN_HLEN
               ? fail(fault, "packets of up to %u bytes: %s sends at most %u; raise its MTU", model->longest,
                      port->name, port->longest)
               : 0;
}

int sender_open(struct sender *sender, struct model *model, const struct arguments *arguments,
                struct fault *fault) {
    struct options *options = &sender->options;
    const unsigned longest = model->longest < 2048 ? 2048 : model->longest;
    *options = (struct options){.eal = arguments->eal,
                                .port = {arguments->port},
                                .ports = 1,
                                .queues = 1,
                                .burst = arguments->burst,
                                .depth = arguments->depth,
                                .max_frame = longest < arguments->max_frame ? arguments->max_frame : longest};
    const unsigned mbufs = ports_mbuf_count(options) + CACHED_MBUFS;
    sender->priority = arguments->priority;
    sender->nic = arguments->eal.pcis > 0;
    if (ports_open(&sender->ports, options, mbufs, fault) != 0 ||
        check_longest(&sender->ports.port[0], model, fault) != 0 ||
        ports_start(&sender->ports, false, fault) != 0 ||
        ports_begin_clocks(&sender->ports, &sender->time, fault) != 0 ||
        schedule_open(&sender->schedule, model, fault) != 0) {
        return -1;
    }
    const int64_t now = timebase_ns(&sender->time);
    sender->start_ns = arguments->start_ns ? (int64_t)arguments->start_ns : now + BEFORE_START_NS;
    struct transmission *transmission = &sender->transmission;
    transmission->schedule = &sender->schedule;
    transmission->port = &sender->ports.port[0];
    transmission->time = &sender->time;
    transmission->pool = sender->ports.pool;
    transmission->start_ns = sender->start_ns;
    transmission->burst = arguments->burst;
    transmission->retry_ns = (int64_t)arguments->retry_ns;
    transmission->steps = sender->time.steps;
    return check_start(arguments, now, fault);
}

int sender_run(struct sender *sender, struct fault *fault) {
    struct transmission *transmission = &sender->transmission;
    timebase_begin_run(&sender->time);
    if (rte_eal_remote_launch(poll, sender, POLLING_LCORE) != 0) {
        return fail(fault, "cannot start the polling thread");
    }
    int64_t disciplined_ns = 0;
    while (transmission->end == SENDING) {
        sleep_for(TICK_NS);
        disciplined_ns += TICK_NS;
        if (disciplined_ns >= TIMEBASE_PERIOD_NS) {
            timebase_discipline(&sender->time);
            disciplined_ns = 0;
        }
        if (received_signal) {
            transmission_stop(transmission, SENDING_STOPPED);
        } else if (ports_check_links(&sender->ports, fault) != 0) {
            transmission_stop(transmission, SENDING_LINK_DOWN);
        }
    }
    timebase_measure(&sender->time);
    rte_eal_wait_lcore(POLLING_LCORE);
    const struct port *port = &sender->ports.port[0];
    transmission->drained = port_drain(port->id, 0, port->tx_depth, sender->nic, DRAIN_LIMIT_NS);
    return 0;
}

void sender_close(struct sender *sender) {
    schedule_close(&sender->schedule);
    ports_close(&sender->ports);
}
