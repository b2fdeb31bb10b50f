#include "schedule.h"

#include <stdlib.h>

#define CACHE_LINE 64

static bool precedes(const struct event *event, const struct event *other) {
    return event->due_ns != other->due_ns ? event->due_ns < other->due_ns
                                          : event->flow->number < other->flow->number;
}

/* Moves the event at `at` down until both events below it are later. */
static void sift_down(struct schedule *schedule, uint32_t at) {
    const struct event moved = schedule->heap[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= schedule->count) {
            break;
        }
        if (child + 1 < schedule->count && precedes(&schedule->heap[child + 1], &schedule->heap[child])) {
            ++child;
        }
        if (!precedes(&schedule->heap[child], &moved)) {
            break;
        }
        schedule->heap[at] = schedule->heap[child];
        at = child;
    }
    schedule->heap[at] = moved;
}

/* Fetches the flow of the next packet, which may not be in a cache. */
static void prefetch(const struct event *event) {
    if (event->flow) {
        for (size_t at = 0; at < sizeof *event->flow; at += CACHE_LINE) {
            __builtin_prefetch((const uint8_t *)event->flow + at, 1);
        }
    }
}

int schedule_open(struct schedule *schedule, struct model *model, struct fault *fault) {
    *schedule = (struct schedule){.rate_bps = model->rate_bps};
    schedule->heap = calloc(model->flows, sizeof *schedule->heap);
    if (!schedule->heap) {
        return fail(fault, "%u flows: out of memory", model->flows);
    }
    for (uint32_t i = 0; i < model->flows; ++i) {
        struct flow *flow = &model->flow[i];
        flow_begin(flow);
        if (flow->until_ns == 0 || flow->start_ns < flow->until_ns) {
            schedule->heap[schedule->count++] = (struct event){flow->start_ns, flow};
        }
    }
    for (uint32_t i = schedule->count / 2; i-- > 0;) {
        sift_down(schedule, i);
    }
    return 0;
}

void schedule_close(struct schedule *schedule) {
    free(schedule->heap);
    schedule->heap = NULL;
}

void schedule_advance(struct schedule *schedule, int64_t due_ns) {
    struct event *first = schedule->heap;
    struct flow *flow = first->flow;
    const uint32_t bytes = flow_next_bytes(flow);
    if (schedule->rate_bps) {
        schedule->free_ns = due_ns + flow_duration_ns(bytes, schedule->rate_bps);
    }
    if (flow->rate_bps) {
        flow->free_ns = first->due_ns + flow_duration_ns(bytes, flow->rate_bps);
    }
    if (flow_advance(flow)) {
        first->due_ns = flow->arrival_ns < flow->free_ns ? flow->free_ns : flow->arrival_ns;
    } else {
        *first = schedule->heap[--schedule->count];
    }
    sift_down(schedule, 0);
    prefetch(schedule->heap);
}
