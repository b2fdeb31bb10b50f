#include "report.h"

#include <inttypes.h>

static void print_timing(FILE *to, const struct transmission *transmission) {
    const struct errors *errors = &transmission->errors;
    fputs("{", to);
    if (errors->total) {
        fprintf(to,
                "\"error_median_ns\": %" PRId64 ", \"error_p99_ns\": %" PRId64
                ", \"error_largest_ns\": %" PRId64,
                errors_percentile(errors, 50), errors_percentile(errors, 99), errors->largest_ns);
    } else {
        fputs("\"error_median_ns\": null, \"error_p99_ns\": null, \"error_largest_ns\": null", to);
    }
    fprintf(to, ", \"clock_error_ns\": %" PRId64 ", \"ended\": \"%s\", \"drained\": %s}",
            transmission->time->largest_error_ns, transmission_end_name(transmission->end),
            transmission->drained ? "true" : "false");
}

static void print_flow(FILE *to, const struct flow *flow, int64_t start_ns) {
    fprintf(to,
            "{\"start_ns\": %" PRId64 ", \"packets\": %" PRIu64 ", \"bytes\": %" PRIu64
            ", \"dropped\": %" PRIu64 ", \"malformed\": %" PRIu64,
            start_ns + flow->start_ns, flow->sent, flow->sent_bytes, flow->dropped, flow->malformed);
    if (flow->sent) {
        fprintf(to,
                ", \"shortest_bytes\": %u, \"longest_bytes\": %u, \"first_ns\": %" PRId64
                ", \"last_ns\": %" PRId64 "}",
                flow->shortest, flow->longest, flow->first_ns, flow->last_ns);
    } else {
        fputs(", \"shortest_bytes\": null, \"longest_bytes\": null, \"first_ns\": null, \"last_ns\": null}",
              to);
    }
}

void report_print(FILE *to, const struct model *model, int64_t start_ns,
                  const struct transmission *transmission) {
    uint64_t packets = 0, bytes = 0, dropped = 0;
    for (uint32_t i = 0; i < model->flows; ++i) {
        packets += model->flow[i].sent;
        bytes += model->flow[i].sent_bytes;
        dropped += model->flow[i].dropped;
    }
    fprintf(to,
            "{\"start_ns\": %" PRId64 ", \"packets\": %" PRIu64 ", \"bytes\": %" PRIu64
            ", \"dropped\": %" PRIu64 ", \"timing\": ",
            start_ns, packets, bytes, dropped);
    if (transmission) {
        print_timing(to, transmission);
    } else {
        fputs("null", to);
    }
    fputs(", \"flows\": [", to);
    for (uint32_t i = 0; i < model->flows; ++i) {
        fputs(i ? ",\n" : "\n", to);
        print_flow(to, &model->flow[i], start_ns);
    }
    fputs("]}\n", to);
}
