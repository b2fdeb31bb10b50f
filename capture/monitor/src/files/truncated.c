#include "files/truncated.h"

#include <stdlib.h>

#define SUFFIX ".pcapng"

static void write_packet(void *user, const struct logged_packet *seen) {
    struct truncated *truncated = user;
    const struct input_packet *packet = seen->packet;
    struct fault fault;
    const uint32_t snaplen = truncated->snaplen ? truncated->snaplen : UINT32_MAX;
    struct frame frame = {
        .ts_ns = (uint64_t)packet->arrival_ns,
        .wire_bytes = packet->wire,
        .kept_bytes = packet->captured_bytes < snaplen ? packet->captured_bytes : snaplen,
        .identified = true,
        .identity = {seen->identity.high, seen->identity.low},
        .segments = 1,
    };
    frame.segment[0] = (struct iovec){(void *)(uintptr_t)packet->bytes, frame.kept_bytes};
    add_count(&truncated->counts.received, 1);
    if (truncated->counts.first_ns == 0) {
        truncated->counts.first_ns = frame.ts_ns;
    }
    truncated->counts.last_ns = frame.ts_ns;
    if (truncated->failed || output_put(truncated->output, &frame, &fault) != PUT_DONE) {
        truncated->failed = true;
        add_count(&truncated->counts.dropped_failed, 1);
    } else {
        add_count(&truncated->counts.put, 1);
    }
}

static void write_burst(void *user) {
    struct truncated *truncated = user;
    if (!truncated->failed && output_burst(truncated->output, 0) != 0) {
        truncated->failed = true;
    }
}

int truncated_open(struct truncated *truncated, const char *path, uint32_t snaplen, unsigned port,
                   bool many_ports, struct monitor *monitor, struct fault *fault) {
    const size_t length = strlen(path), suffix = strlen(SUFFIX);
    if (length <= suffix || strcmp(path + length - suffix, SUFFIX) != 0) {
        return fail(fault, "--write %.200s: the name must end in " SUFFIX, path);
    }
    *truncated = (struct truncated){.snaplen = snaplen};
    pthread_mutex_init(&truncated->files.lock, NULL);
    truncated->stem = strndup(path, length - suffix);
    if (!truncated->stem) {
        return fail(fault, "out of memory");
    }
    const struct output_settings settings = {
        .stem = truncated->stem,
        .extension = pcapng_format.name,
        .many_queues = many_ports,
        .wait = true,
        .format = &pcapng_format,
        .kind = &buffered_store,
        .store = {&truncated->files, 0, FILE_ALIGN, 0},
        .info = {.program = PROGRAM " " ACAPELLA_VERSION, .snaplen = snaplen},
    };
    truncated->output = output_open(&settings, port, &truncated->counts, fault);
    if (!truncated->output) {
        return -1;
    }
    monitor->logger[monitor->loggers++] = (struct logger){write_packet, write_burst, truncated};
    return 0;
}

int truncated_close(struct truncated *truncated, struct fault *fault) {
    int status = 0;
    if (truncated->output) {
        output_close(truncated->output);
        truncated->output = NULL;
        files_finish_pending(&truncated->files);
        if (truncated->failed || truncated->files.failed) {
            const struct file *file = truncated->files.first;
            const int error = file ? file->error : 0;
            status = fail(fault, "%.200s" SUFFIX ": %s%s", truncated->stem,
                          error ? strerror(error) : "not complete", write_advice(error));
        }
    }
    files_free(&truncated->files);
    free(truncated->stem);
    truncated->stem = NULL;
    return status;
}
