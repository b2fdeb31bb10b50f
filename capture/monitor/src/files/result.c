#include "files/result.h"

#include <stdio.h>
#include <string.h>

#include "common/files/publish.h"

static bool put(FILE *to, const void *from, size_t bytes) { return fwrite(from, bytes, 1, to) == 1; }

static bool put_counts(FILE *to, const struct port_counts *counts) {
    const uint64_t values[] = {
        counts->received,
        counts->bytes,
        counts->filtered,
        counts->foreign,
        counts->invalid,
        counts->stamped,
        counts->malformed[0],
        counts->malformed[1],
        counts->malformed[2],
        counts->malformed[3],
        counts->malformed[4],
        counts->malformed[5],
        counts->unique,
        counts->duplicates,
        counts->reordered,
        counts->unclassified,
        counts->bit_errors,
        (uint64_t)counts->first_ns,
        (uint64_t)counts->last_ns,
    };
    return put(to, values, sizeof values);
}

static bool put_series(FILE *to, const struct series *series) {
    const int64_t head[] = {series->begin_ns, series->length_ns, series->used, (int64_t)series->early};
    return put(to, head, sizeof head) &&
           (series->used == 0 || put(to, series->interval, series->used * sizeof *series->interval));
}

static bool put_flow(FILE *to, const struct flow_arrays *arrays, uint32_t index) {
    const uint64_t number = index;
    return put(to, &number, sizeof number) && put(to, &arrays->flow[index], sizeof *arrays->flow) &&
           put(to, arrays->gaps[index], sizeof *arrays->gaps) &&
           put(to, arrays->latencies[index], sizeof *arrays->latencies);
}

static bool put_port(FILE *to, const struct result_port *port) {
    const struct monitor *monitor = port->monitor;
    const struct flow_arrays *arrays = &monitor->arrays;
    char name[RESULT_NAME] = "";
    const uint64_t losses[] = {port->kernel_dropped, port->missed, port->clock_steps,
                               (uint64_t)port->clock_step_ns, (uint64_t)port->stepped_from_ns};
    uint64_t flows = 0;
    const char *directory = strrchr(port->name, '/');
    snprintf(name, sizeof name, "%s", directory ? directory + 1 : port->name);
    for (uint32_t i = 0; i < arrays->flows; ++i) {
        flows += arrays->flow[i].packets > 0;
    }
    bool good = put(to, name, sizeof name) && put_counts(to, &monitor->counts) &&
                put(to, losses, sizeof losses) && put(to, monitor->gaps, sizeof monitor->gaps) &&
                put(to, monitor->latencies, sizeof monitor->latencies) && put_series(to, &monitor->series) &&
                put(to, &flows, sizeof flows);
    for (uint32_t i = 0; good && i < arrays->flows; ++i) {
        good = arrays->flow[i].packets == 0 || put_flow(to, arrays, i);
    }
    return good;
}

static int write_all(FILE *to, const void *argument) {
    const struct result *result = argument;
    bool good = put(to, RESULT_MAGIC, sizeof RESULT_MAGIC) && put(to, &result->ports, sizeof result->ports);
    for (uint64_t i = 0; good && i < result->ports; ++i) {
        good = put_port(to, &result->port[i]);
    }
    return good ? 0 : -1;
}

int result_write(const char *path, const struct result *result, struct fault *fault) {
    _Static_assert(sizeof(struct flow) == 256, "result.py has the same layout");
    return write_and_publish(path, write_all, result, fault);
}
