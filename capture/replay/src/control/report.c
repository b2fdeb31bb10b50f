#include "control/report.h"

#include <inttypes.h>
#include <rte_version.h>
#include <sys/timex.h>

#include "common/files/json.h"
#include "control/counters.h"
#include "control/summary.h"
#include "engine/lead.h"

static FILE *begin(const struct session *session, const char *event) {
    fprintf(session->out, "{\"event\": \"%s\"", event);
    return session->out;
}

static void end(FILE *to) {
    fputs("}\n", to);
    fflush(to);
}

static void put_text(FILE *to, const char *key, const char *value) {
    fprintf(to, ", \"%s\": ", key);
    json_text_or_null(to, value);
}

static void put_number(FILE *to, const char *key, uint64_t value) {
    fprintf(to, ", \"%s\": %" PRIu64, key, value);
}

static void put_time(FILE *to, const char *key, int64_t ns) {
    if (ns == DEPARTED_NEVER) {
        fprintf(to, ", \"%s\": null", key);
    } else {
        fprintf(to, ", \"%s\": %" PRId64, key, ns);
    }
}

static void put_bool(FILE *to, const char *key, bool value) {
    fprintf(to, ", \"%s\": %s", key, value ? "true" : "false");
}

/* Prints the state of the conversion from the TSC to the system clock, and the kernel's state of that clock.
 * With `of_run`, includes the largest error of the run. */
static void put_clock(FILE *to, const struct timebase *time, bool of_run) {
    const struct clock *clock = &time->clock;
    const int64_t offset = clock->offset_ns < 0 ? -clock->offset_ns : clock->offset_ns;
    struct timex kernel = {.modes = 0};
    const int state = adjtimex(&kernel);
    fputs(", \"clock\": {", to);
    if (of_run) {
        fprintf(to, "\"largest_error_ns\": %" PRId64 ", ", time->largest_error_ns);
    }
    fprintf(to,
            "\"source\": \"tsc\", \"tsc_hz\": %.0f, \"offset_ns\": %" PRId64 ", \"error_ns\": %" PRId64
            ", \"largest_offset_ns\": %" PRId64 ", \"updates\": %" PRIu64 ", \"steps\": %" PRIu64
            ", \"system_synchronized\": %s, \"system_error_ns\": %" PRId64 "}",
            time->tsc_hz, clock->offset_ns, offset + time->error_ns, clock->largest_offset_ns, clock->updates,
            clock->steps, state >= 0 && state != TIME_ERROR ? "true" : "false",
            state >= 0 ? (int64_t)kernel.esterror * 1000 : -1);
}

static bool is_measured(const struct lead *lead) {
    return lead->source == LEAD_TRANSMIT || lead->source == LEAD_LOOPBACK;
}

static void put_lead(FILE *to, const struct lead *lead) {
    static const char *const stamps[] = {"none", "device", "kernel"};
    fprintf(to, "{\"source\": \"%s\"", lead_source_name(lead->source));
    put_time(to, "ns", lead->source == LEAD_UNKNOWN ? DEPARTED_NEVER : lead->ns);
    if (is_measured(lead)) {
        put_time(to, "p5_ns", lead->low_ns);
        put_time(to, "p95_ns", lead->high_ns);
        put_text(to, "timestamps", stamps[lead->stamps]);
    }
}

/* Prints the lead time of each port in a run; null if it is unknown and 0 is used. */
static void put_leads(FILE *to, const struct ports *ports) {
    fputs(", \"leads\": [", to);
    for (unsigned i = 0; i < ports->count; ++i) {
        fputs(i ? ", " : "", to);
        put_lead(to, &ports->port[i].lead);
        fputc('}', to);
    }
    fputc(']', to);
}

static void put_measured_lead(FILE *to, const struct lead *lead) {
    fputs(", \"lead\": ", to);
    put_lead(to, lead);
    if (is_measured(lead)) {
        put_number(to, "probes", lead->probes);
        put_number(to, "timestamped", lead->stamped);
    }
    fputc('}', to);
}

static void put_port(FILE *to, const struct port *port) {
    static const char *const stamps[] = {"burst", "device", "device"};
    fputs("{\"name\": ", to);
    json_text(to, port->name);
    put_text(to, "driver", port->driver);
    put_text(to, "interface", port->interface);
    put_number(to, "longest_bytes", port->longest);
    put_number(to, "rx_queues", port->rx_queues);
    put_number(to, "tx_queues", port->tx_queues);
    put_bool(to, "rss", port->rss);
    put_text(to, "timestamps", stamps[port->stamps]);
    put_number(to, "flushed", port->flushed);
    put_measured_lead(to, &port->lead);
}

static void put_traffic(FILE *to, const struct traffic *traffic) {
    fprintf(to, "\"received\": %" PRIu64, traffic->received);
    put_number(to, "forwarded", traffic->forwarded);
    put_number(to, "control", traffic->control);
    fprintf(to,
            ", \"dropped\": {\"ring_full\": %" PRIu64 ", \"driver_error\": %" PRIu64
            ", \"too_long\": %" PRIu64 ", \"control\": %" PRIu64 "}",
            traffic->ring_full, traffic->driver_error, traffic->too_long, traffic->control_dropped);
}

/* Prints the counters of a port of a bridge, and those of each of its Rx queues if it has several. */
static void put_port_traffic(FILE *to, const struct port *port, const struct traffic traffic[QUEUES_MAX]) {
    const struct traffic sum = port_traffic(traffic);
    fputs(", ", to);
    put_traffic(to, &sum);
    if (port->rx_queues > 1) {
        fputs(", \"queues\": [", to);
        for (unsigned queue = 0; queue < port->rx_queues; ++queue) {
            fputs(queue ? ", {" : "{", to);
            put_traffic(to, &traffic[queue]);
            fputc('}', to);
        }
        fputc(']', to);
    }
}

static void put_recording(FILE *to, const struct recording *recording) {
    const uint64_t packets = recording_packets(recording);
    uint64_t bursts = 0, unresolved = 0;
    for (uint64_t i = 0; i < packets; ++i) {
        bursts += recording_at(recording, i)->first;
        unresolved += recording_at(recording, i)->unresolved;
    }
    put_number(to, "packets", packets);
    put_number(to, "bytes", recording->bytes);
    put_number(to, "bursts", bursts);
    put_number(to, "unresolved", unresolved);
    put_text(to, "timestamps", timestamps_name(recording->timestamps));
    put_time(to, "first_ns", packets ? recording_at(recording, 0)->ts_ns : DEPARTED_NEVER);
    put_time(to, "last_ns", packets ? recording_at(recording, packets - 1)->ts_ns : DEPARTED_NEVER);
}

/* Prints the packets lost since `before` by the driver and by the interface, before the program received
 * them. The interface also counts the packets that it received; after a run or a recording, this count is
 * compared with that of the program. */
static void put_reception(FILE *to, const struct counters *now, const struct counters *before) {
    const struct interface_counters *interface = &now->interface, *old = &before->interface;
    fprintf(to, "\"reception\": {\"missed\": %" PRIu64 ", \"no_mbuf\": %" PRIu64,
            now->missed - before->missed, now->no_mbuf - before->no_mbuf);
    if (interface->known && old->known) {
        put_number(to, "interface_packets", interface->rx_packets - old->rx_packets);
        put_number(to, "interface_dropped", interface->rx_dropped - old->rx_dropped);
        put_number(to, "received", now->received - before->received);
        put_number(to, "kernel_dropped", now->kernel_dropped - before->kernel_dropped);
    }
    if (now->awaited) {
        put_number(to, "not_received", counters_not_received(now, before));
    }
    fputc('}', to);
}

/* Prints the key `ports`: the packets that each port did not receive during a recording. */
static void put_receptions(FILE *to, const struct session *session) {
    fputs(", \"ports\": [", to);
    for (unsigned i = 0; i < session->ports.count; ++i) {
        fputs(i ? ", {\"name\": " : "{\"name\": ", to);
        json_text(to, session->ports.port[i].name);
        fputs(", ", to);
        put_reception(to, &session->counters_after[i], &session->counters_before[i]);
        fputc('}', to);
    }
    fputc(']', to);
}

void report_ready(const struct session *session) {
    const struct memory *memory = &session->memory;
    FILE *to = begin(session, "ready");
    put_text(to, "program", PROGRAM);
    put_text(to, "version", ACAPELLA_VERSION);
    put_text(to, "dpdk", rte_version());
    put_bool(to, "bridge", session->options.bridge);
    put_text(to, "pacing", session->options.pacing == PACING_SINGLE ? "single" : "bursts");
    put_number(to, "burst", session->options.burst);
    fputs(", \"ports\": [", to);
    for (unsigned i = 0; i < session->ports.count; ++i) {
        fputs(i ? ", " : "", to);
        put_port(to, &session->ports.port[i]);
        fputc('}', to);
    }
    fprintf(to,
            "], \"memory\": {\"packets\": %" PRIu64 ", \"mbufs\": %" PRIu64 ", \"mbuf_bytes\": %" PRIu64
            ", \"recording_bytes\": %" PRIu64 ", \"departures\": %" PRIu64 ", \"departure_bytes\": %" PRIu64
            ", \"total_bytes\": %" PRIu64 "}",
            session->options.packets, memory->mbufs, memory->mbuf_bytes, memory->packet_bytes,
            session->options.departures, memory->departure_bytes, memory->total_bytes);
    put_clock(to, &session->time, false);
    end(to);
}

void report_error(const struct session *session, const struct fault *fault) {
    FILE *to = begin(session, "error");
    put_text(to, "message", fault->text);
    end(to);
}

void report_recording(const struct session *session) {
    const struct worker *worker = &session->worker;
    FILE *to = begin(session, "recording");
    put_number(to, "from_ns", (uint64_t)worker->from_ns);
    put_number(to, "until_ns", (uint64_t)worker->until_ns);
    put_number(to, "window_ns", (uint64_t)worker->window_ns);
    put_number(to, "packets_max", session->options.packets);
    end(to);
}

void report_recorded(const struct session *session) {
    static const char *const ends[] = {"none", "until", "memory", "stop"};
    FILE *to = begin(session, "recorded");
    put_text(to, "stopped_by", ends[session->worker.bridge.end]);
    put_recording(to, &session->recording);
    put_number(to, "removed_memory", session->worker.bridge.removed_memory);
    put_receptions(to, session);
    put_clock(to, &session->time, false);
    end(to);
}

void report_loaded(const struct session *session, const char *path, const struct loaded *loaded) {
    FILE *to = begin(session, "loaded");
    put_text(to, "file", path);
    put_recording(to, &session->recording);
    put_number(to, "truncated_packets", loaded->truncated_packets);
    put_bool(to, "file_truncated", loaded->file_truncated);
    end(to);
}

/* Prints the parameters of the run. */
static void put_run(FILE *to, const struct session *session) {
    const struct replay *replay = &session->worker.replay;
    put_number(to, "run", session->runs);
    put_time(to, "at_ns", replay->start_ns);
    put_number(to, "loops", replay->loops);
    put_number(to, "speed_ppm", replay->speed_ppm);
    put_text(to, "pacing", session->options.pacing == PACING_SINGLE ? "single" : "bursts");
    put_leads(to, &session->ports);
    put_number(to, "priority", session->options.priority);
    put_number(to, "period_ns", (uint64_t)replay->plan.period_ns);
}

void report_scheduled(const struct session *session) {
    const struct plan *plan = &session->worker.replay.plan;
    FILE *to = begin(session, "scheduled");
    put_run(to, session);
    put_number(to, "packets", plan->packets);
    put_number(to, "time_reversed", plan->time_reversed);
    fprintf(to, ", \"rejected\": {\"too_long\": %" PRIu64 ", \"too_short\": %" PRIu64 "}",
            plan->rejected[OUTCOME_TOO_LONG], plan->rejected[OUTCOME_TOO_SHORT]);
    put_clock(to, &session->time, false);
    end(to);
}

void report_running(const struct session *session) {
    FILE *to = begin(session, "running");
    put_number(to, "run", session->runs);
    end(to);
}

static void put_outcomes(FILE *to, const struct summary *summary) {
    put_number(to, "requested", summary->packets);
    put_number(to, "sent", summary->outcome[OUTCOME_SENT]);
    fputs(", \"dropped\": {", to);
    for (unsigned i = OUTCOME_SENT + 1; i < OUTCOMES; ++i) {
        fprintf(to, "%s\"%s\": %" PRIu64, i > OUTCOME_SENT + 1 ? ", " : "", outcome_name((enum outcome)i),
                summary->outcome[i]);
    }
    fputc('}', to);
    put_number(to, "sent_late", summary->sent_late);
    put_number(to, "retries", summary->retries);
    put_bool(to, "balanced", summary->balanced);
    put_bool(to, "monotone", summary->monotone);
    put_time(to, "first_departed_ns", summary->first_ns);
    put_time(to, "last_departed_ns", summary->last_ns);
    if (summary->measured) {
        fprintf(to,
                ", \"error_ns\": {\"median\": %" PRId64 ", \"p99\": %" PRId64 ", \"largest\": %" PRId64 "}",
                summary->median_ns, summary->p99_ns, summary->largest_ns);
    } else {
        fputs(", \"error_ns\": null", to);
    }
}

/* Prints the counters of the driver and the kernel during a run. They may differ from the outcomes: other
 * programs may send on the interface, and a queue of the kernel may delay or drop packets. */
static void put_counters(FILE *to, const struct session *session, unsigned at) {
    const struct port *port = &session->ports.port[at];
    const struct counters *now = &session->counters_after[at], *before = &session->counters_before[at];
    const struct interface_counters *interface = &now->interface, *old = &before->interface;
    fputs("{\"name\": ", to);
    json_text(to, port->name);
    put_number(to, "driver_sent", now->sent - before->sent);
    put_number(to, "driver_errors", now->errors - before->errors);
    put_number(to, "answered", now->answered - before->answered);
    put_number(to, "forwarded", now->forwarded - before->forwarded);
    fputs(", \"queues\": [", to);
    for (unsigned queue = 0; queue < port->tx_queues; ++queue) {
        fprintf(to, "%s%" PRIu64, queue ? ", " : "", port->sent[queue]);
    }
    fputc(']', to);
    if (session->options.bridge) { /* without a bridge, received packets are not polled */
        fputs(", ", to);
        put_reception(to, now, before);
    }
    if (interface->known && old->known) {
        fprintf(to,
                ", \"interface\": {\"tx_packets\": %" PRIu64 ", \"tx_errors\": %" PRIu64
                ", \"tx_dropped\": %" PRIu64 "}}",
                interface->tx_packets - old->tx_packets, interface->tx_errors - old->tx_errors,
                interface->tx_dropped - old->tx_dropped);
    } else {
        fputs(", \"interface\": null}", to);
    }
}

void report_done(const struct session *session) {
    const struct replay *replay = &session->worker.replay;
    struct summary summary;
    summarize(&summary, replay);
    FILE *to = begin(session, "done");
    put_text(to, "stopped_by", end_reason_name(replay->end_reason));
    put_run(to, session);
    put_outcomes(to, &summary);
    put_number(to, "late_ns", session->options.late_ns);
    fprintf(to,
            ", \"polling\": {\"polls\": %" PRIu64 ", \"preemptions\": %ld, \"largest_gap_ns\": %" PRId64 "}",
            replay->polls, replay->preemptions, replay->largest_gap_ns);
    fputs(", \"ports\": [", to);
    for (unsigned i = 0; i < session->ports.count; ++i) {
        fputs(i ? ", " : "", to);
        put_counters(to, session, i);
    }
    fputc(']', to);
    put_clock(to, &session->time, true);
    end(to);
}

void report_status(const struct session *session) {
    static const char *const states[] = {"idle", "recording", "running"};
    const enum activity activity = session->activity; /* idle only after `done` or `recorded` */
    FILE *to = begin(session, "status");
    put_text(to, "state", states[activity]);
    put_number(to, "runs", session->runs);
    if (activity == ACTIVITY_IDLE) { /* otherwise the polling thread may change it */
        put_recording(to, &session->recording);
    }
    fputs(", \"ports\": [", to);
    for (unsigned i = 0; i < session->ports.count; ++i) {
        fputs(i ? ", " : "", to);
        put_port(to, &session->ports.port[i]);
        put_port_traffic(to, &session->ports.port[i], session->worker.traffic[i]);
        const struct counters now = counters_read(session, i);
        fputs(", ", to);
        put_reception(to, &now, &session->counters_first[i]);
        fputc('}', to);
    }
    fputc(']', to);
    put_clock(to, &session->time, false);
    end(to);
}

void report_saved(const struct session *session, const char *command, const char *path, uint64_t packets) {
    FILE *to = begin(session, "saved");
    put_text(to, "command", command);
    put_text(to, "file", path);
    put_number(to, "packets", packets);
    end(to);
}

void report_control(const struct session *session, const struct inband_frame *frame) {
    FILE *to = begin(session, "control");
    put_number(to, "port", frame->port);
    fputs(", \"frame\": \"", to);
    for (unsigned i = 0; i < frame->bytes; ++i) {
        fprintf(to, "%02x", frame->data[i]);
    }
    fputc('"', to);
    end(to);
}

void report_answered(const struct session *session) {
    FILE *to = begin(session, "answered");
    end(to);
}

void report_stopped(const struct session *session) {
    FILE *to = begin(session, "stopped");
    fputs(", \"run\": null", to);
    end(to);
}

void report_cleared(const struct session *session) {
    FILE *to = begin(session, "cleared");
    end(to);
}

void report_quit(const struct session *session, const char *reason) {
    FILE *to = begin(session, "quit");
    put_text(to, "reason", reason);
    end(to);
}
