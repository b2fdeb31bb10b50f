#include "control/summary.h"

/* Returns the value with a rank (from 0) in the sorted order. It changes the order of the values, and needs
 * no memory: C. A. R. Hoare, Algorithm 65 (FIND), Communications of the ACM 4 (1961). */
static int64_t find_rank(int64_t *value, uint64_t count, uint64_t rank) {
    int64_t low = 0, high = (int64_t)count - 1;
    const int64_t target = (int64_t)rank;
    while (low < high) {
        const int64_t pivot = value[target];
        int64_t left = low, right = high;
        while (left <= right) {
            for (; value[left] < pivot; ++left) {
            }
            for (; value[right] > pivot; --right) {
            }
            if (left <= right) {
                const int64_t swapped = value[left];
                value[left++] = value[right];
                value[right--] = swapped;
            }
        }
        low = right < target ? left : low;
        high = target < left ? right : high;
    }
    return value[target];
}

static int64_t percentile(int64_t *value, uint64_t count, unsigned percent) {
    const uint64_t at = (count * percent + 99) / 100;
    return find_rank(value, count, at ? at - 1 : 0);
}

/* Sets the percentiles; changes the order of the errors. */
static void measure(struct summary *summary, int64_t *error, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
        const int64_t size = error[i] < 0 ? -error[i] : error[i];
        summary->largest_ns = size > summary->largest_ns ? size : summary->largest_ns;
    }
    summary->measured = count > 0;
    if (summary->measured) {
        summary->median_ns = percentile(error, count, 50);
        summary->p99_ns = percentile(error, count, 99);
    }
}

/* The retries of a burst are counted once, at its first packet. */
static void add(struct summary *summary, const struct departure *departed, int64_t error, uint64_t late_ns,
                int64_t *latest_ns) {
    ++summary->outcome[departed->outcome];
    summary->retries += departed->flags & DEPARTED_BURST_FIRST ? departed->retries : 0;
    if (departed->outcome != OUTCOME_SENT) {
        return;
    }
    summary->sent_late += error > (int64_t)late_ns;
    summary->first_ns = summary->first_ns == DEPARTED_NEVER ? departed->ns : summary->first_ns;
    summary->monotone = summary->monotone && departed->ns >= *latest_ns;
    *latest_ns = departed->ns;
    summary->last_ns = departed->ns > summary->last_ns ? departed->ns : summary->last_ns;
}

/* Returns true if departures of all ports must be in the order of the packets. With different lead times, a
 * late burst may overtake one of another port; then only those of each port must be in order. */
static bool have_same_lead(const struct ports *ports) {
    for (unsigned i = 1; i < ports->count; ++i) {
        if (ports->port[i].lead.ns != ports->port[0].lead.ns) {
            return false;
        }
    }
    return true;
}

static uint64_t sent_by_queues(const struct ports *ports) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < ports->count; ++i) {
        for (unsigned queue = 0; queue < QUEUES_MAX; ++queue) {
            sum += ports->port[i].sent[queue];
        }
    }
    return sum;
}

void summarize(struct summary *summary, const struct replay *replay) {
    const uint32_t packets = replay->plan.packets;
    int64_t *errors = replay->errors;
    uint64_t sent = 0, total = 0;
    const bool same_lead = have_same_lead(replay->ports);
    int64_t latest_ns[OPTIONS_PORTS];
    for (unsigned port = 0; port < OPTIONS_PORTS; ++port) {
        latest_ns[port] = DEPARTED_NEVER;
    }
    *summary = (struct summary){.packets = replay->departures,
                                .first_ns = DEPARTED_NEVER,
                                .last_ns = DEPARTED_NEVER,
                                .monotone = true};
    for (uint64_t i = 0; i < replay->departures; ++i) {
        const struct departure *departed = &replay->departed[i];
        const bool was_sent = departed->outcome == OUTCOME_SENT;
        const int64_t requested = replay_requested(replay, (uint32_t)(i / packets), (uint32_t)(i % packets));
        const int64_t error = was_sent ? departed->ns - requested : 0;
        add(summary, departed, error, replay->options->late_ns,
            &latest_ns[same_lead ? 0 : replay->plan.entry[i % packets].port]);
        if (was_sent) {
            errors[sent++] = error;
        }
    }
    measure(summary, errors, sent);
    for (unsigned i = 0; i < OUTCOMES; ++i) {
        total += summary->outcome[i];
    }
    summary->balanced = total == summary->packets && summary->outcome[OUTCOME_SENT] == replay->accepted &&
                        sent_by_queues(replay->ports) == replay->accepted;
}
