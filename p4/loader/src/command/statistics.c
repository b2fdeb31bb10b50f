#include "command/statistics.h"

#include <inttypes.h>
#include <rte_version.h>
#include <string.h>

#include "common/files/json.h"

static void print_sunk(FILE *to, const struct p4 *p4, const struct p4_counts *counts) {
    const char *separator = "";
    fputs(",\n\"sunk\": {", to);
    for (unsigned i = 0; i < P4_REASONS; ++i) {
        if (counts->sunk[i]) {
            fputs(separator, to);
            json_text(to, p4_reason(p4, (uint8_t)i));
            fprintf(to, ": %" PRIu64, counts->sunk[i]);
            separator = ", ";
        }
    }
    fputc('}', to);
}

static void print_ports(FILE *to, const struct statistics *statistics, const struct p4_counts *counts) {
    const struct options *options = statistics->options;
    fputs(",\n\"ports\": [", to);
    for (unsigned i = 0; i < options->ins; ++i) {
        fprintf(to, "%s\n  {\"port\": %u, \"file\": ", i ? "," : "", i);
        const char *name = strrchr(options->in[i], '/');
        json_text(to, name ? name + 1 : options->in[i]);
        fprintf(to, ", \"in\": %" PRIu64 ", \"end\": \"%s\"}", counts->in_of_port[i],
                p4_input_truncated(statistics->input, i) ? "truncated" : "clean");
    }
    fputc(']', to);
}

int p4_statistics_write(FILE *to, const void *argument) {
    const struct statistics *statistics = argument;
    const struct p4_counts *counts = p4_counts(statistics->p4);
    const double seconds = (double)counts->pipeline_ns / 1e9;
    fprintf(to,
            "{\"program\": \"" PROGRAM "\", \"version\": \"" ACAPELLA_VERSION
            "\", \"stopped_by\": \"%s\", \"pipeline\": \"%s\", \"dpdk\": \"%s\",\n"
            "\"in\": %" PRIu64 ", \"in_bytes\": %" PRIu64 ", \"probes\": %" PRIu64 ", \"clones\": %" PRIu64
            ", \"out\": %" PRIu64 ", \"out_bytes\": %" PRIu64 ", \"reports\": %" PRIu64
            ", \"epochs\": %" PRIu64,
            statistics->stopped_by, statistics->options->library ? "compiled" : "interpreted", rte_version(),
            counts->in, counts->in_bytes, counts->probes, counts->clones, counts->outcome[P4_SENT],
            counts->sent_bytes, counts->reports, counts->epochs);
    print_sunk(to, statistics->p4, counts);
    fprintf(to,
            ",\n\"dropped\": {\"by_program\": %" PRIu64 ", \"unknown_port\": %" PRIu64
            ", \"bad_egress_header\": %" PRIu64 ", \"untimed\": %" PRIu64
            "},\n\"interface_refused\": %" PRIu64 ", \"balanced\": %s",
            counts->outcome[P4_DROPPED], counts->outcome[P4_WRONG_PORT], counts->outcome[P4_HEADERLESS],
            counts->outcome[P4_UNTIMED], statistics->output->refused,
            p4_balanced(statistics->p4) ? "true" : "false");
    print_ports(to, statistics, counts);
    fprintf(to,
            ",\n\"pipeline_ns\": %" PRIu64 ", \"control_ns\": %" PRIu64 ", \"frames_per_second\": %.0f}\n",
            counts->pipeline_ns, counts->control_ns,
            seconds > 0 ? (double)(counts->in + counts->probes) / seconds : 0.0);
    return ferror(to) ? -1 : 0;
}
