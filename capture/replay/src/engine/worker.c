#include "engine/worker.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define SPINS 256          /* empty polls before the thread sleeps */
#define SLEEP_NS 20000     /* at 5 million packets per second, 100 descriptors */
#define IDLE_NS 500000     /* sleep without a bridge, outside of runs */
#define AHEAD_NS 2000000LL /* polling starts this long before the first packet of a run */
#define MAX_SLEEP_NS 10000000LL
#define TIMER_SLACK_NS 1000

static void sleep_for(int64_t ns) {
    const struct timespec pause = {0, ns};
    nanosleep(&pause, NULL);
}

int worker_set_priority(unsigned priority) {
    const struct sched_param parameters = {.sched_priority = (int)priority};
    return pthread_setschedparam(pthread_self(), priority ? SCHED_FIFO : SCHED_OTHER, &parameters);
}

/* Sets the real-time priority of the thread while it polls a run, and resets it afterwards. */
static void set_run_priority(struct worker *worker, bool polls) {
    if (worker->priority) {
        worker_set_priority(polls ? worker->priority : 0);
    }
}

/* Sends a frame that is not part of a run. Resets the mbuf if the driver accepts it. */
static void send_frame(struct worker *worker) {
    if (port_send(worker->send_port, 0, &worker->send_mbuf, 1, &worker->send_failed) == 1) {
        worker->send_mbuf = NULL;
    }
}

static void copy_traffic(struct worker *worker) {
    for (unsigned i = 0; i < worker->bridge.ports->count; ++i) {
        const struct port *port = &worker->bridge.ports->port[i];
        memcpy(worker->traffic[i], port->traffic, sizeof port->traffic);
    }
}

static void handle(struct worker *worker, enum request request) {
    switch (request) {
        case REQUEST_RECORD:
            bridge_record(&worker->bridge, worker->from_ns, worker->until_ns, worker->window_ns);
            worker->activity = ACTIVITY_RECORDING;
            break;
        case REQUEST_RUN:
            worker->began = false;
            worker->activity = ACTIVITY_RUNNING;
            break;
        case REQUEST_PAUSE:
        case REQUEST_COUNT:
            copy_traffic(worker);
            worker->paused = request == REQUEST_PAUSE;
            break;
        case REQUEST_RESUME:
            worker->paused = false;
            break;
        case REQUEST_SEND:
            send_frame(worker);
            break;
        case REQUEST_STOP:
        case REQUEST_END:
            bridge_stop(&worker->bridge, RECORDING_END_STOP);
            if (worker->activity == ACTIVITY_RUNNING) {
                replay_end(&worker->replay, worker->stop_reason);
                set_run_priority(worker, false);
            }
            worker->activity = ACTIVITY_IDLE;
            break;
        default:
            break;
    }
    worker->request = REQUEST_NONE;
}

/* Sleeps if the next departure is far away and --wake-ns permits it. */
static void sleep_until_due(struct replay *replay) {
    const int64_t sleep_ns = replay_sleep_ns(replay, MAX_SLEEP_NS);
    if (sleep_ns) {
        sleep_for(sleep_ns);
    }
}

/* Polls a run until it ends or a request arrives; forwards packets if the next departure is far away. */
static void run(struct worker *worker) {
    struct replay *replay = &worker->replay;
    const int64_t guard = (int64_t)worker->replay.options->guard_ns;
    if (!worker->began) {
        const int64_t ahead = replay->due_ns - timebase_ns(replay->time);
        if (ahead > AHEAD_NS && replay->end_reason == END_NONE && replay->steps == replay->time->steps) {
            if (worker->forwards) {
                bridge_poll_before(&worker->bridge, replay->due_ns);
            } else {
                sleep_for(ahead - AHEAD_NS < MAX_SLEEP_NS ? ahead - AHEAD_NS : MAX_SLEEP_NS);
            }
            return;
        }
        set_run_priority(worker, true);
        replay_begin(replay);
        worker->began = true;
    }
    while (replay_poll(replay)) {
        if (atomic_load_explicit(&worker->request, memory_order_relaxed) != REQUEST_NONE) {
            return;
        }
        if (!worker->forwards) {
            sleep_until_due(replay);
        } else if (replay->due_ns - replay->polled_ns > guard) {
            bridge_poll_before(&worker->bridge, replay->due_ns);
        }
    }
    set_run_priority(worker, false);
    worker->activity = ACTIVITY_IDLE;
}

static void idle(struct worker *worker, unsigned *empty) {
    if (!worker->forwards) {
        sleep_for(IDLE_NS);
        return;
    }
    const bool received = bridge_poll(&worker->bridge) > 0;
    worker->empty_polls += !received;
    *empty = received ? 0 : *empty + 1;
    if (worker->activity == ACTIVITY_RECORDING && !worker->bridge.records) {
        worker->activity = ACTIVITY_IDLE;
    }
    /* packets are recorded with the times of their transmissions, which a sleep would delay */
    if (*empty > SPINS && !worker->spin && worker->activity != ACTIVITY_RECORDING) {
        sleep_for(SLEEP_NS);
    }
}

int worker_run(void *argument) {
    struct worker *worker = argument;
    unsigned empty = 0;
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
    for (;;) {
        const enum request request = worker->request;
        if (request != REQUEST_NONE) {
            handle(worker, request);
            if (request == REQUEST_END) {
                return 0;
            }
        }
        if (worker->paused) {
            rte_pause(); /* the main thread reads counters, which takes less than a millisecond */
        } else if (worker->activity == ACTIVITY_RUNNING) {
            run(worker);
        } else {
            idle(worker, &empty);
        }
    }
}

void worker_request(struct worker *worker, enum request request) {
    worker->request = request;
    while (worker->request != REQUEST_NONE) {
        sleep_for(SLEEP_NS);
    }
}
