#include "count/series.h"

#include <string.h>

static struct interval merge(const struct interval *a, const struct interval *b) {
    struct interval result = *a;
    result.packets += b->packets;
    result.bytes += b->bytes;
    result.first_copies += b->first_copies;
    if (b->first_copies && (!a->first_copies || b->latency_min_ns < a->latency_min_ns)) {
        result.latency_min_ns = b->latency_min_ns;
        result.latency_at_ns = b->latency_at_ns;
    }
    return result;
}

static void widen(struct series *series) {
    for (uint32_t i = 0; i < SERIES_INTERVALS / 2; ++i) {
        series->interval[i] = merge(&series->interval[(size_t)2 * i], &series->interval[(size_t)2 * i + 1]);
    }
    memset(series->interval + SERIES_INTERVALS / 2, 0, sizeof series->interval / 2);
    series->length_ns *= 2;
    series->used = (series->used + 1) / 2;
}

struct interval *series_find(struct series *series, int64_t arrival_ns) {
    if (series->length_ns == 0) {
        series->begin_ns = arrival_ns;
        series->length_ns = SERIES_BEGIN_NS;
    }
    int64_t since_ns = 0;
    if (arrival_ns < series->begin_ns) {
        series->early++;
    } else if (__builtin_sub_overflow(arrival_ns, series->begin_ns, &since_ns)) {
        since_ns = INT64_MAX;
    }
    /* at the maximum length, the last interval also includes everything after it */
    while (since_ns / series->length_ns >= SERIES_INTERVALS && series->length_ns < INT64_MAX / 4) {
        widen(series);
    }
    const int64_t index = since_ns / series->length_ns;
    const uint32_t at = index < SERIES_INTERVALS ? (uint32_t)index : SERIES_INTERVALS - 1;
    series->used = at + 1 > series->used ? at + 1 : series->used;
    series->current = &series->interval[at];
    series->current_ns = series->begin_ns + (int64_t)at * series->length_ns;
    return series->current;
}
