#include "engine/replay.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

__extension__ typedef __int128 wide;

const char *end_reason_name(enum end_reason reason) {
    static const char *const names[] = {"none", "complete", "stop", "clock_step", "link_down"};
    return names[reason];
}

int replay_open(struct replay *replay, const struct options *options, struct ports *ports,
                struct timebase *time, struct fault *fault) {
    *replay = (struct replay){.options = options, .ports = ports, .time = time};
    replay->capacity = options->departures;
    replay->departed = calloc(replay->capacity, sizeof *replay->departed);
    replay->errors = calloc(replay->capacity, sizeof *replay->errors);
    if (!replay->departed || !replay->errors) {
        replay_close(replay);
        return fail(fault, "departures of %llu packets: out of memory; lower --departures",
                    (unsigned long long)options->departures);
    }
    return 0;
}

void replay_close(struct replay *replay) {
    plan_free(&replay->plan);
    free(replay->departed);
    free(replay->errors);
    replay->departed = NULL;
    replay->errors = NULL;
}

/* Sets the time of the burst at a cursor; at the end of a loop, the cursor moves to the next loop. */
static void set_cursor(const struct replay *replay, unsigned port, struct port_cursor *cursor) {
    const struct plan *plan = &replay->plan;
    if (cursor->at == plan->packets) {
        cursor->at = plan->first[port];
        cursor->loop_start_ns += plan->period_ns;
        cursor->ended = ++cursor->loop == replay->loops || cursor->at == plan->packets;
    }
    if (!cursor->ended) {
        cursor->due_ns =
            cursor->loop_start_ns + plan->entry[cursor->at].offset_ns - replay->ports->port[port].lead.ns;
    }
}

/* Returns true if the burst at `cursor` is passed to its driver before that at `other`. If both are due at
 * the same time, the one recorded first precedes. */
static bool precedes(const struct port_cursor *cursor, const struct port_cursor *other) {
    if (cursor->due_ns != other->due_ns) {
        return cursor->due_ns < other->due_ns;
    }
    return cursor->loop != other->loop ? cursor->loop < other->loop : cursor->at < other->at;
}

/* Selects the burst that is due first. With a lead time for each port, this is the order in which bursts are
 * passed to the drivers so that they depart in the order of the recording. */
static void find_next(struct replay *replay) {
    const struct port_cursor *first = NULL;
    for (unsigned port = 0; port < replay->ports->count; ++port) {
        const struct port_cursor *cursor = &replay->cursor[port];
        if (!cursor->ended && (!first || precedes(cursor, first))) {
            first = cursor;
        }
    }
    if (!first) {
        replay_end(replay, END_COMPLETE);
        return;
    }
    replay->loop = first->loop;
    replay->at = first->at;
    replay->due_ns = first->due_ns;
    replay->done = 0;
    replay->retries = 0;
    replay->first_try_ns = 0;
}

static void begin_cursors(struct replay *replay) {
    const struct plan *plan = &replay->plan;
    for (unsigned port = 0; port < replay->ports->count; ++port) {
        struct port_cursor *cursor = &replay->cursor[port];
        *cursor = (struct port_cursor){.at = plan->first[port], .loop_start_ns = replay->start_ns};
        cursor->ended = cursor->at == plan->packets;
        if (!cursor->ended) {
            set_cursor(replay, port, cursor);
        }
    }
}

int replay_prepare(struct replay *replay, uint32_t loops, uint64_t speed_ppm, struct fault *fault) {
    const struct plan *plan = &replay->plan;
    const uint64_t packets = (uint64_t)plan->packets * loops;
    replay->departures = 0;
    if (packets > replay->capacity) {
        return fail(fault, "%u loops of %u packets exceed the limit of %llu departures; raise --departures",
                    loops, plan->packets, (unsigned long long)replay->capacity);
    }
    for (uint64_t i = 0; i < packets; ++i) {
        const uint8_t rejected = plan->entry[i % plan->packets].rejected;
        replay->departed[i] = (struct departure){
            .ns = DEPARTED_NEVER,
            .outcome = rejected ? rejected : (uint8_t)OUTCOME_STOPPED,
        };
    }
    replay->loops = loops;
    replay->speed_ppm = speed_ppm;
    return 0;
}

int replay_start_at(struct replay *replay, int64_t start_ns, struct fault *fault) {
    const struct plan *plan = &replay->plan;
    if ((wide)start_ns + (wide)plan->period_ns * replay->loops > INT64_MAX) {
        return fail(fault, "%u loops end after the year 2262; lower LOOPS", replay->loops);
    }
    replay->departures = (uint64_t)plan->packets * replay->loops;
    replay->start_ns = start_ns;
    replay->accepted = replay->polls = 0;
    replay->largest_gap_ns = 0;
    replay->begun = false;
    replay->preemptions = 0;
    replay->end_reason = END_NONE;
    replay->steps = replay->time->steps;
    for (unsigned port = 0; port < replay->ports->count; ++port) {
        memset(replay->ports->port[port].sent, 0, sizeof replay->ports->port[port].sent);
    }
    begin_cursors(replay);
    find_next(replay);
    return 0;
}

static long involuntary_switches(void) {
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

void replay_begin(struct replay *replay) {
    replay->begun = true;
    replay->preemptions = involuntary_switches();
    replay->polled_ns = timebase_ns(replay->time);
}

void replay_end(struct replay *replay, enum end_reason reason) {
    if (replay->end_reason == END_NONE) {
        replay->preemptions = replay->begun ? involuntary_switches() - replay->preemptions : 0;
        replay->end_reason = reason;
    }
}

/* Sets the outcome of the next `count` packets of the burst. */
static void set_outcome(struct replay *replay, unsigned count, enum outcome outcome, int64_t ns,
                        bool own_stamp) {
    struct departure *departed =
        &replay->departed[(uint64_t)replay->loop * replay->plan.packets + replay->at + replay->done];
    const struct port *port = &replay->ports->port[replay->plan.entry[replay->at].port];
    const bool hardware = own_stamp && port->lead.stamps == LEAD_STAMPS_DEVICE;
    for (unsigned i = 0; i < count; ++i) {
        uint8_t flags = own_stamp ? DEPARTED_OWN_STAMP : 0;
        flags |= hardware ? DEPARTED_HARDWARE : 0;
        flags |= replay->done + i == 0 ? DEPARTED_BURST_FIRST : 0;
        departed[i] = (struct departure){ns, replay->retries, (uint8_t)outcome, flags};
    }
    replay->done = (uint16_t)(replay->done + count);
}

/* Passes the rest of the burst to the driver. `now` was read before this call, so no packet can leave
 * earlier; the departure time is `now` plus the lead time of the port. */
static void send_burst(struct replay *replay, const struct entry *entry, int64_t now) {
    struct rte_mbuf **mbuf = &replay->plan.mbuf[replay->at + replay->done];
    const uint16_t remaining = (uint16_t)(entry->count - replay->done);
    bool failed = false;
    for (unsigned i = 0; i < remaining; ++i) {
        mbuf_hold(mbuf[i]);
    }
    struct port *port = &replay->ports->port[entry->port];
    const uint16_t accepted = port_send(port, entry->queue, mbuf, remaining, &failed);
    for (unsigned i = accepted; i < remaining; ++i) {
        rte_pktmbuf_free(mbuf[i]);
    }
    if (failed) {
        set_outcome(replay, accepted, OUTCOME_DRIVER_ERROR, DEPARTED_NEVER, false);
    } else {
        replay->accepted += accepted;
        port->sent[entry->queue] += accepted;
        set_outcome(replay, accepted, OUTCOME_SENT, now + port->lead.ns, accepted == 1);
    }
    if (accepted < remaining) {
        replay->first_try_ns = replay->first_try_ns ? replay->first_try_ns : now;
        ++replay->retries;
        if (now - replay->first_try_ns >= (int64_t)replay->options->retry_ns) {
            set_outcome(replay, remaining - accepted, OUTCOME_RING_FULL, DEPARTED_NEVER, false);
        }
    }
}

int64_t replay_sleep_ns(struct replay *replay, int64_t longest_ns) {
    const int64_t wake_ns = (int64_t)replay->options->wake_ns;
    const int64_t left_ns = replay->due_ns - replay->polled_ns - wake_ns;
    if (wake_ns == 0 || left_ns <= 0 || replay->retries) {
        return 0;
    }
    const int64_t sleep_ns = left_ns < longest_ns ? left_ns : longest_ns;
    replay->polled_ns += sleep_ns;
    return sleep_ns;
}

bool replay_poll(struct replay *replay) {
    if (unlikely(replay->end_reason != END_NONE)) {
        return false;
    }
    const int64_t now = timebase_ns(replay->time);
    const int64_t gap = now - replay->polled_ns;
    replay->largest_gap_ns = gap > replay->largest_gap_ns ? gap : replay->largest_gap_ns;
    replay->polled_ns = now;
    ++replay->polls;
    if (unlikely(replay->time->steps != replay->steps)) {
        replay_end(replay, END_CLOCK_STEP);
        return false;
    }
    if (now < replay->due_ns) {
        return true;
    }
    const struct entry *entry = &replay->plan.entry[replay->at];
    const int64_t limit = (int64_t)replay->options->drop_late_ns;
    if (limit && replay->done == 0 && replay->retries == 0 && now - replay->due_ns > limit) {
        set_outcome(replay, entry->count, OUTCOME_LATE, DEPARTED_NEVER, false);
    } else {
        send_burst(replay, entry, now);
    }
    if (replay->done == entry->count) {
        struct port_cursor *cursor = &replay->cursor[entry->port];
        cursor->at = entry->next;
        set_cursor(replay, entry->port, cursor);
        find_next(replay);
    }
    return replay->end_reason == END_NONE;
}
