#include "accounts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/files/json.h"

#define RESERVED_BYTES 65536

struct totals {
    uint64_t received, received_bytes, written, written_bytes, pending, preprocessed, added, filtered,
        sampled_out, truncated;
    uint64_t dropped_full, dropped_failed, dropped_shape;
};

/* Sums the counts of a queue. Pending frames were passed to the writer, but are neither written nor lost in
 * an error; at the end of a capture there are none. */
static struct totals sum_queue(const struct capture *capture, unsigned queue) {
    const struct counts *counts = &capture->worker[queue].counts;
    struct totals totals = {
        .preprocessed = counts->preprocessed,
        .added = counts->added,
        .filtered = counts->filtered,
        .sampled_out = counts->sampled_out,
        .truncated = counts->truncated,
        .dropped_full = counts->dropped_full,
        .dropped_failed = counts->dropped_failed,
        .dropped_shape = counts->dropped_shape,
    };
    uint64_t lost = 0;
    for (const struct file *file = capture->files.first; file; file = file->next) {
        if (file->queue != queue) {
            continue;
        }
        if (file->state == FILE_OPEN) {
            totals.written += file->safe_frames;
        } else {
            totals.written += file->kept_frames;
            totals.written_bytes += file->kept_bytes;
            lost += file->put_frames - file->kept_frames;
        }
    }
    totals.dropped_failed += lost;
    totals.pending = counts->put - totals.written - lost;
    totals.received = counts->received;
    totals.received_bytes = counts->received_bytes;
    return totals;
}

static void add(struct totals *to, struct totals more) {
    to->received += more.received;
    to->received_bytes += more.received_bytes;
    to->written += more.written;
    to->written_bytes += more.written_bytes;
    to->pending += more.pending;
    to->preprocessed += more.preprocessed;
    to->added += more.added;
    to->filtered += more.filtered;
    to->sampled_out += more.sampled_out;
    to->truncated += more.truncated;
    to->dropped_full += more.dropped_full;
    to->dropped_failed += more.dropped_failed;
    to->dropped_shape += more.dropped_shape;
}

uint64_t accounts_received(const struct capture *capture) {
    uint64_t sum = 0;
    for (unsigned queue = 0; queue < capture->port.queues; ++queue) {
        sum += capture->worker[queue].counts.received;
    }
    return sum;
}

bool accounts_balance(const struct capture *capture) {
    for (unsigned queue = 0; queue < capture->port.queues; ++queue) {
        const struct totals t = sum_queue(capture, queue);
        const uint64_t known = t.written + t.preprocessed + t.filtered + t.sampled_out + t.dropped_full +
                               t.dropped_failed + t.dropped_shape;
        if (t.received + t.added != known || t.pending != 0) {
            return false;
        }
    }
    const struct generator *generator = &capture->generator;
    return generator->offered ==
           (generator->options ? generator->refused + generator_left(generator) + accounts_received(capture)
                               : 0);
}

static void print_totals(FILE *to, struct totals t) {
    fprintf(to,
            "\"received\": %" PRIu64 ", \"received_bytes\": %" PRIu64 ", \"written\": %" PRIu64
            ", \"written_bytes\": %" PRIu64 ", \"pending\": %" PRIu64 ", \"preprocessed\": %" PRIu64
            ", \"added\": %" PRIu64 ", \"filtered\": %" PRIu64 ", \"sampled_out\": %" PRIu64
            ", \"truncated\": %" PRIu64 ", \"dropped\": {\"writer_full\": %" PRIu64
            ", \"write_error\": %" PRIu64 ", \"too_many_segments\": %" PRIu64 "}",
            t.received, t.received_bytes, t.written, t.written_bytes, t.pending, t.preprocessed, t.added,
            t.filtered, t.sampled_out, t.truncated, t.dropped_full, t.dropped_failed, t.dropped_shape);
}

static void print_frames(FILE *to, const struct capture *capture) {
    struct totals sum = {0};
    for (unsigned queue = 0; queue < capture->port.queues; ++queue) {
        add(&sum, sum_queue(capture, queue));
    }
    fputs(",\n\"frames\": {", to);
    print_totals(to, sum);
    fputs("},\n\"queues\": [", to);
    for (unsigned queue = 0; queue < capture->port.queues; ++queue) {
        const struct counts *counts = &capture->worker[queue].counts;
        fprintf(to,
                "%s\n  {\"queue\": %u, \"first_ns\": %" PRIu64 ", \"last_ns\": %" PRIu64
                ", \"cpu_ns\": %" PRIu64 ", ",
                queue ? "," : "", queue, counts->first_ns, counts->last_ns,
                (uint64_t)capture->worker[queue].cpu_ns);
        print_totals(to, sum_queue(capture, queue));
        fputc('}', to);
    }
    fputs("]", to);
}

static void print_files(FILE *to, const struct capture *capture) {
    static const char *const states[] = {"open", "whole", "truncated", "removed"};
    const char *separator = "";
    fputs(",\n\"files\": [", to);
    for (const struct file *file = capture->files.first; file; file = file->next) {
        if (!*file->path) {
            continue; /* a sink has no file */
        }
        const char *path = file->state == FILE_WHOLE ? file->path : file->part;
        const char *name = strrchr(path, '/');
        const uint64_t frames = file->state == FILE_OPEN ? file->safe_frames : file->kept_frames;
        fprintf(to, "%s\n  {\"file\": ", separator);
        json_text(to, name ? name + 1 : path);
        fprintf(to,
                ", \"queue\": %u, \"state\": \"%s\", \"frames\": %" PRIu64 ", \"bytes\": %" PRIu64
                ", \"error\": ",
                file->queue, states[file->state], frames, file->state == FILE_OPEN ? 0 : file->kept_bytes);
        if (file->error) {
            char error[160];
            snprintf(error, sizeof error, "%s: %s", file->failed, strerror(file->error));
            json_text(to, error);
        } else {
            fputs("null", to);
        }
        fputc('}', to);
        separator = ",";
    }
    fputs("]", to);
}

static void print_settings(FILE *to, const struct capture *capture) {
    const struct options *options = &capture->options;
    const struct receive_port *port = &capture->port;
    fputs(",\n\"device\": {\"name\": ", to);
    json_text(to, port->name);
    fputs(", \"driver\": ", to);
    json_text(to, port->driver);
    fprintf(to,
            ", \"queues\": %u, \"rss\": %s, \"depth\": %u, \"burst\": %u, \"huge_pages\": %s, \"flushed\": "
            "%" PRIu64 "}",
            port->queues, port->rss ? "true" : "false", port->depth, options->burst,
            options->eal.huge ? "true" : "false", port->flushed);
    fprintf(to, ",\n\"format\": \"%s\", \"writer\": \"%s\", \"writer_note\": ", options->format->name,
            capture->writer->name);
    json_text_or_null(to, capture->writer_note);
    fprintf(to,
            ", \"snaplen\": %u, \"sample\": %" PRIu64 ", \"sample_by\": \"%s\", \"hash\": %s, \"filter\": ",
            options->snaplen, options->sample, options->sample_by_hash ? "hash" : "count",
            options->hash ? "\"crc32\"" : "null");
    json_text_or_null(to, options->filter);
}

static void print_clock(FILE *to, const struct capture *capture) {
    static const char *const sources[] = {"tsc", "device", "nic"};
    const struct receive_port *port = &capture->port;
    const bool nic = port->source == STAMP_NIC;
    const struct clock *clock = nic ? &port->nic : &port->tsc;
    const double hz = nic ? port->nic_hz : port->tsc_hz;
    uint64_t unstamped = 0;
    for (unsigned queue = 0; queue < port->queues; ++queue) {
        unstamped += capture->worker[queue].unstamped;
    }
    /* The resolution is that of the counter or of the timestamp's unit; net_pcap reads microseconds. */
    const unsigned long long tick = hz > 0 && hz < 1e9 ? (unsigned long long)(1e9 / hz + 0.999) : 1;
    fprintf(to,
            ",\n\"clock\": {\"source\": \"%s\", \"resolution_ns\": %llu, \"counter_hz\": %.0f, \"updates\": "
            "%" PRIu64 ", \"steps\": %" PRIu64 ", \"offset_ns\": %" PRId64 ", \"largest_offset_ns\": %" PRId64
            ", \"unstamped\": %" PRIu64 "}",
            sources[port->source], port->source == STAMP_DEVICE ? 1000ULL : tick, hz, clock->updates,
            clock->steps, clock->offset_ns, clock->largest_offset_ns, unstamped);
}

/* Prints the driver's extended counters that are not 0. */
static void print_extended(FILE *to, uint16_t port) {
    const int count = rte_eth_xstats_get_names(port, NULL, 0);
    struct rte_eth_xstat_name *name = count > 0 ? calloc((size_t)count, sizeof *name) : NULL;
    struct rte_eth_xstat *value = count > 0 ? calloc((size_t)count, sizeof *value) : NULL;
    const char *separator = "";
    if (name && value && rte_eth_xstats_get_names(port, name, (unsigned)count) == count &&
        rte_eth_xstats_get(port, value, (unsigned)count) == count) {
        for (int i = 0; i < count; ++i) {
            if (value[i].value && value[i].id < (uint64_t)count) {
                fputs(separator, to);
                json_text(to, name[value[i].id].name);
                fprintf(to, ": %" PRIu64, value[i].value);
                separator = ", ";
            }
        }
    }
    free(name);
    free(value);
}

static void print_generator(FILE *to, const struct capture *capture) {
    const struct generator *generator = &capture->generator;
    fputs(",\n\"generator\": ", to);
    if (!generator->options) {
        fputs("null", to);
        return;
    }
    fprintf(to,
            "{\"frame_bytes\": %u, \"rate\": %.17g, \"offered\": %" PRIu64 ", \"refused\": %" PRIu64
            ", \"left\": %" PRIu64 ", \"behind\": %" PRIu64 ", \"seconds\": %.6f}",
            capture->options.generate, capture->options.rate, (uint64_t)generator->offered,
            (uint64_t)generator->refused, generator_left(generator), (uint64_t)generator->behind,
            generator_seconds(generator));
}

static void print_counters(FILE *to, const struct capture *capture, const struct interface_counters *before) {
    const struct receive_port *port = &capture->port;
    struct rte_eth_stats nic;
    fputs(",\n\"nic\": ", to);
    if (rte_eth_stats_get(port->id, &nic) == 0) {
        fprintf(to,
                "{\"ipackets\": %" PRIu64 ", \"ibytes\": %" PRIu64 ", \"imissed\": %" PRIu64
                ", \"ierrors\": %" PRIu64 ", \"rx_nombuf\": %" PRIu64 ", \"extended\": {",
                nic.ipackets, nic.ibytes, nic.imissed, nic.ierrors, nic.rx_nombuf);
        print_extended(to, port->id);
        fputs("}}", to);
    } else {
        fputs("null", to);
    }
    print_generator(to, capture);
    const struct interface_counters now = read_interface_counters(port->interface);
    fputs(",\n\"interface\": ", to);
    if (now.known && before->known) {
        fputs("{\"name\": ", to);
        json_text(to, port->interface);
        fprintf(to,
                ", \"rx_packets\": %" PRIu64 ", \"rx_bytes\": %" PRIu64 ", \"rx_errors\": %" PRIu64
                ", \"rx_dropped\": %" PRIu64 ", \"rx_fifo\": %" PRIu64 "}",
                now.rx_packets - before->rx_packets, now.rx_bytes - before->rx_bytes,
                now.rx_errors - before->rx_errors, now.rx_dropped - before->rx_dropped,
                now.rx_fifo - before->rx_fifo);
    } else {
        fputs("null", to);
    }
}

static void print_errors(FILE *to, const struct capture *capture) {
    const char *separator = "";
    fputs(",\n\"errors\": [", to);
    for (unsigned queue = 0; queue < capture->port.queues; ++queue) {
        const struct worker *worker = &capture->worker[queue];
        if (worker->failed && *worker->fault.text) {
            fputs(separator, to);
            json_text(to, worker->fault.text);
            separator = ", ";
        }
    }
    for (const struct file *file = capture->files.first; file; file = file->next) {
        if (file->error) {
            char line[4400];
            snprintf(line, sizeof line, "%s: %s: %s%s", file->part, file->failed, strerror(file->error),
                     capture_file_advice(file->error));
            fputs(separator, to);
            json_text(to, line);
            separator = ", ";
        }
    }
    fputs("]", to);
}

/* Prints the number of frames that the P4 program did not send, by reason. Its counts belong to its thread,
 * so they are printed at the end of the capture only. */
static void print_p4(FILE *to, const struct capture *capture) {
    const struct p4 *p4 = capture->worker[0].p4;
    fputs(",\n\"p4\": ", to);
    if (!p4 || !capture->stopped_by) {
        fputs("null", to);
        return;
    }
    const struct p4_counts *counts = p4_counts(p4);
    const char *separator = "";
    fputs("{\"program\": ", to);
    json_text(to, capture->options.p4);
    fputs(", \"control\": ", to);
    json_text_or_null(to, capture->options.p4_control);
    fprintf(to, ", \"balanced\": %s, \"pipeline_ns\": %" PRIu64 ", \"sunk\": {",
            p4_balanced(p4) ? "true" : "false", counts->pipeline_ns);
    for (unsigned reason = 0; reason < P4_REASONS; ++reason) {
        if (counts->sunk[reason]) {
            fputs(separator, to);
            json_text(to, p4_reason(p4, (uint8_t)reason));
            fprintf(to, ": %" PRIu64, counts->sunk[reason]);
            separator = ", ";
        }
    }
    fprintf(to, "}, \"dropped\": %" PRIu64 ", \"wrong_port\": %" PRIu64 ", \"headerless\": %" PRIu64 "}",
            counts->outcome[P4_DROPPED], counts->outcome[P4_WRONG_PORT], counts->outcome[P4_HEADERLESS]);
}

static void print_all(FILE *to, const struct capture *capture, const struct interface_counters *before) {
    fprintf(to, "{\"acapella_dpdk_capture\": 1, \"version\": \"%s\", \"state\": \"%s\", \"stopped_by\": ",
            ACAPELLA_VERSION, capture->stopped_by ? "done" : "running");
    json_text_or_null(to, capture->stopped_by);
    fprintf(to, ", \"begin_ns\": %" PRIu64 ", \"end_ns\": %" PRIu64, capture->begin_ns, capture->end_ns);
    print_settings(to, capture);
    print_clock(to, capture);
    print_frames(to, capture);
    print_p4(to, capture);
    print_files(to, capture);
    print_counters(to, capture, before);
    print_errors(to, capture);
    fputs("}\n", to);
}

/* Writes a file under a temporary name and renames it. The heartbeat is not synced, and reserves space on the
 * disk, so that the final accounts can be written even if the disk is full. */
static int write_file(const char *path, const char *bytes, size_t size, bool heartbeat, struct fault *fault) {
    char *temporary = NULL;
    if (asprintf(&temporary, "%s.new", path) < 0) {
        return fail(fault, "%s: out of memory", path);
    }
    const int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int status = fd < 0 ? -1 : 0;
    for (size_t done = 0; status == 0 && done < size;) {
        const ssize_t written = write(fd, bytes + done, size - done);
        if (written > 0) {
            done += (size_t)written;
        } else if (written == 0 || errno != EINTR) {
            status = -1;
        }
    }
    if (status == 0 && heartbeat) {
        (void)!fallocate(fd, FALLOC_FL_KEEP_SIZE, 0,
                         (off_t)size + RESERVED_BYTES); /* not supported by every file system */
    }
    if (status == 0 && ((!heartbeat && fsync(fd) != 0) || rename(temporary, path) != 0)) {
        status = -1;
    }
    if (status != 0) {
        const int error = errno;
        fail(fault, "%s: %s%s", temporary, strerror(error), write_advice(error));
        unlink(temporary);
    }
    if (fd >= 0) {
        close(fd);
    }
    free(temporary);
    return status;
}

int accounts_write(const struct capture *capture, const struct interface_counters *before, const char *path,
                   struct fault *fault) {
    char *bytes = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&bytes, &size);
    if (!memory) {
        return fail(fault, "%s: out of memory", path);
    }
    print_all(memory, capture, before);
    const bool failed = fflush(memory) != 0 || ferror(memory); /* fclose alone does not report it */
    const int status = fclose(memory) == 0 && !failed && size > 0
                           ? write_file(path, bytes, size, !capture->stopped_by, fault)
                           : fail(fault, "%s: out of memory", path);
    free(bytes);
    return status;
}
