#include "engine/replay.h"

#include <stdlib.h>
#include <sys/resource.h>

__extension__ typedef __int128 wide;

const char *ending_name(enum ending ending) {
    static const char *const names[] = {"none", "complete", "stop", "clock_step", "link_down"};
    return names[ending];
}

int replay_open(struct replay *replay, const struct options *options, struct ports *ports,
                struct timebase *time, struct fault *fault) {
    *replay = (struct replay){.options = options, .ports = ports, .time = time};
    replay->capacity = options->departures;
    replay->departed = calloc(replay->capacity, sizeof *replay->departed);
    return replay->departed ? 0
                            : fail(fault, "departures of %llu packets: out of memory; lower --departures",
                                   (unsigned long long)replay->capacity);
}

void replay_close(struct replay *replay) {
    plan_free(&replay->plan);
    free(replay->departed);
    replay->departed = NULL;
}

/* Advances to the next packet that is sent, in this loop or a later one. */
static void find_next(struct replay *replay) {
    const struct plan *plan = &replay->plan;
    for (;; ++replay->at) {
        if (replay->at == plan->packets) {
            if (++replay->loop == replay->loops) {
                replay_end(replay, ENDING_COMPLETE);
                return;
            }
            replay->loop_start_ns += plan->period_ns;
            replay->at = 0;
        }
        if (!plan->entry[replay->at].refused) {
            break;
        }
    }
    replay->due_ns =
        replay->loop_start_ns + plan->entry[replay->at].offset_ns - (int64_t)replay->options->lead_ns;
    replay->done = 0;
    replay->retries = 0;
    replay->first_try_ns = 0;
}

int replay_prepare(struct replay *replay, uint32_t loops, uint64_t speed_ppm, struct fault *fault) {
    const struct plan *plan = &replay->plan;
    const uint64_t packets = (uint64_t)plan->packets * loops;
    replay->departures = 0;
    if (packets > replay->capacity) {
        return fail(fault, "%u loops of %u packets are more departures than %llu; raise --departures", loops,
                    plan->packets, (unsigned long long)replay->capacity);
    }
    for (uint64_t i = 0; i < packets; ++i) {
        const uint8_t refused = plan->entry[i % plan->packets].refused;
        replay->departed[i] = (struct departure){
            .ns = DEPARTED_NEVER,
            .outcome = refused ? refused : (uint8_t)OUTCOME_STOPPED,
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
    replay->start_ns = replay->loop_start_ns = start_ns;
    replay->loop = replay->at = 0;
    replay->accepted = replay->polls = 0;
    replay->largest_gap_ns = 0;
    replay->preemptions = 0;
    replay->ending = ENDING_NONE;
    replay->steps = replay->time->steps;
    find_next(replay);
    return 0;
}

static long involuntary_switches(void) {
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

void replay_begin(struct replay *replay) {
    replay->preemptions = involuntary_switches();
    replay->polled_ns = timebase_ns(replay->time);
}

void replay_end(struct replay *replay, enum ending ending) {
    if (replay->ending == ENDING_NONE) {
        replay->preemptions = involuntary_switches() - replay->preemptions;
        replay->ending = ending;
    }
}

/* Sets the outcome of the next `count` packets of the burst. */
static void set_outcome(struct replay *replay, unsigned count, enum outcome outcome, int64_t ns,
                        bool own_stamp) {
    struct departure *departed =
        &replay->departed[(uint64_t)replay->loop * replay->plan.packets + replay->at + replay->done];
    for (unsigned i = 0; i < count; ++i) {
        uint8_t flags = own_stamp ? DEPARTED_OWN_STAMP : 0;
        flags |= replay->done + i == 0 ? DEPARTED_BURST_FIRST : 0;
        departed[i] = (struct departure){ns, replay->retries, (uint8_t)outcome, flags};
    }
    replay->done = (uint16_t)(replay->done + count);
}

/* Passes the rest of the burst to the driver. `now`, the time of the departure, was read before this call:
 * no packet can leave earlier. */
static void send_burst(struct replay *replay, const struct entry *entry, int64_t now) {
    struct rte_mbuf **mbuf = &replay->plan.mbuf[replay->at + replay->done];
    const uint16_t remaining = (uint16_t)(entry->count - replay->done);
    bool failed = false;
    for (unsigned i = 0; i < remaining; ++i) {
        mbuf_hold(mbuf[i]);
    }
    const uint16_t accepted = port_send(&replay->ports->port[entry->port], mbuf, remaining, &failed);
    for (unsigned i = accepted; i < remaining; ++i) {
        rte_pktmbuf_free(mbuf[i]);
    }
    if (failed) {
        set_outcome(replay, accepted, OUTCOME_DRIVER_ERROR, DEPARTED_NEVER, false);
    } else {
        replay->accepted += accepted;
        set_outcome(replay, accepted, OUTCOME_SENT, now + (int64_t)replay->options->lead_ns, accepted == 1);
    }
    if (accepted < remaining) {
        replay->first_try_ns = replay->first_try_ns ? replay->first_try_ns : now;
        ++replay->retries;
        if (now - replay->first_try_ns >= (int64_t)replay->options->retry_ns) {
            set_outcome(replay, remaining - accepted, OUTCOME_RING_FULL, DEPARTED_NEVER, false);
        }
    }
}

int64_t replay_rest(struct replay *replay, int64_t longest_ns) {
    const int64_t wake_ns = (int64_t)replay->options->wake_ns;
    const int64_t left_ns = replay->due_ns - replay->polled_ns - wake_ns;
    if (wake_ns == 0 || left_ns <= 0 || replay->retries) {
        return 0;
    }
    const int64_t rest_ns = left_ns < longest_ns ? left_ns : longest_ns;
    replay->polled_ns += rest_ns;
    return rest_ns;
}

bool replay_poll(struct replay *replay) {
    if (unlikely(replay->ending != ENDING_NONE)) {
        return false;
    }
    const int64_t now = timebase_ns(replay->time);
    const int64_t gap = now - replay->polled_ns;
    replay->largest_gap_ns = gap > replay->largest_gap_ns ? gap : replay->largest_gap_ns;
    replay->polled_ns = now;
    ++replay->polls;
    if (unlikely(replay->time->steps != replay->steps)) {
        replay_end(replay, ENDING_CLOCK_STEP);
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
        replay->at += entry->count;
        find_next(replay);
    }
    return replay->ending == ENDING_NONE;
}
