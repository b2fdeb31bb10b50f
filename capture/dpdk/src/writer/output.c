#include "writer/output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct output {
    struct output_settings settings;
    unsigned queue, number;
    struct counts *counts;
    struct store *store;
    struct file *file; /* NULL after a failure */
};

static bool rotates(const struct output_settings *settings) {
    return settings->rotate_bytes || settings->rotate_ns;
}

static char *file_name(const struct output *output) {
    const struct output_settings *settings = &output->settings;
    char queue[16] = "", number[16] = "", *name = NULL;
    if (settings->many_queues) {
        snprintf(queue, sizeof queue, "-q%u", output->queue);
    }
    if (rotates(settings)) {
        snprintf(number, sizeof number, "-%05u", output->number);
    }
    return asprintf(&name, "%s%s%s.%s", settings->stem, queue, number, settings->extension) < 0 ? NULL : name;
}

/* The bytes may exceed STORE_COPIED and their buffer is reused, so stores that do not copy write them at
 * once. */
static void put_bytes(struct output *output, uint8_t *bytes, size_t size) {
    if (size > 0) {
        const struct iovec piece = {bytes, size};
        output->settings.kind->put(output->store, output->file, &piece, 1, 0);
        if (output->settings.kind == &buffered_store) {
            output->settings.kind->burst(output->store, 0);
        }
    }
}

static int open_file(struct output *output, struct fault *fault) {
    const struct output_settings *settings = &output->settings;
    bool direct = settings->kind->direct;
    uint8_t head[FORMAT_HEAD_MAX];
    if (settings->kind == &sink_store) {
        output->file = sink_file_open(settings->store.files, output->queue, settings->format);
        return output->file ? 0 : fail(fault, "out of memory");
    }
    char *name = file_name(output);
    if (!name) {
        return fail(fault, "%s: out of memory", settings->stem);
    }
    output->file = file_open(settings->store.files, name, output->queue, output->number++, settings->format,
                             &direct, fault);
    free(name);
    if (!output->file) {
        return -1;
    }
    struct file_info info = settings->info;
    info.queue = output->queue;
    put_bytes(output, head, settings->format->head(head, &info));
    return 0;
}

static void end_file(struct output *output) {
    const struct counts *counts = output->counts;
    const struct interface_statistics statistics = {
        .first_ns = counts->first_ns,
        .last_ns = counts->last_ns,
        .now_ns = counts->last_ns,
        .received = counts->received,
        .accepted = counts->received - counts->filtered,
        .dropped = counts->dropped_full + counts->dropped_failed + counts->dropped_shape,
        .delivered = counts->put,
    };
    uint8_t tail[FORMAT_TAIL_MAX];
    put_bytes(output, tail, output->settings.format->tail(tail, &statistics));
    output->settings.kind->complete(output->store, output->file);
    output->file = NULL;
}

struct output *output_open(const struct output_settings *settings, unsigned queue, struct counts *counts,
                           struct fault *fault) {
    struct output *output = calloc(1, sizeof *output);
    if (!output) {
        fail(fault, "out of memory");
        return NULL;
    }
    output->settings = *settings;
    output->queue = queue;
    output->counts = counts;
    output->store = settings->kind->open(&settings->store, fault);
    if (output->store && open_file(output, fault) == 0) {
        return output;
    }
    if (output->store) {
        settings->kind->close(output->store);
    }
    free(output);
    return NULL;
}

static bool file_is_full(const struct output *output, const struct frame *frame, size_t size) {
    const struct output_settings *settings = &output->settings;
    const struct file *file = output->file;
    const bool large =
        settings->rotate_bytes && file->put_bytes + size + FORMAT_TAIL_MAX > settings->rotate_bytes;
    const bool old = settings->rotate_ns && frame->ts_ns >= file->first_ns + settings->rotate_ns;
    return file->put_frames > 0 && (large || old);
}

static enum put_result make_room(struct output *output, size_t size) {
    const struct store_kind *kind = output->settings.kind;
    for (;;) {
        const int room = kind->has_space(output->store, size);
        if (room > 0) {
            return PUT_DONE;
        }
        if (room < 0) {
            return PUT_FAILED;
        }
        if (!output->settings.wait) {
            return PUT_FULL;
        }
        kind->wait(output->store);
    }
}

enum put_result output_put(struct output *output, const struct frame *frame, struct fault *fault) {
    struct record record;
    struct iovec piece[FRAME_SEGMENTS + 2];
    unsigned pieces = 0;
    if (!output->file) {
        return PUT_FAILED;
    }
    output->settings.format->record(&record, frame);
    const size_t size = record_bytes(&record);
    const bool next = file_is_full(output, frame, size);
    /* Always leave room for the end of the file, and for the header of the next file, which starts a new
     * buffer. */
    const size_t ends = FORMAT_TAIL_MAX +
                        (next ? FORMAT_HEAD_MAX + FORMAT_TAIL_MAX + output->settings.store.buffer_bytes : 0);
    const enum put_result room = make_room(output, size + ends);
    if (room != PUT_DONE) {
        output->file = room == PUT_FAILED ? NULL : output->file;
        return room;
    }
    if (next) {
        end_file(output);
        if (output->settings.kind->has_space(output->store, 1) < 0 || open_file(output, fault) != 0) {
            return PUT_FAILED;
        }
    }
    piece[pieces++] = (struct iovec){record.head, record.head_bytes};
    for (unsigned i = 0; i < frame->segments; ++i) {
        piece[pieces++] = frame->segment[i];
    }
    piece[pieces++] = (struct iovec){record.tail, record.tail_bytes};
    if (output->file->put_frames == 0) {
        output->file->first_ns = frame->ts_ns;
    }
    output->file->last_ns = frame->ts_ns;
    output->settings.kind->put(output->store, output->file, piece, pieces, 1);
    return PUT_DONE;
}

int output_burst(struct output *output, uint64_t now_ns) {
    const int status = output->settings.kind->burst(output->store, now_ns);
    if (status != 0) {
        output->file = NULL; /* the store has passed it to the main thread */
    }
    return status;
}

void output_close(struct output *output) {
    if (output->file && output_burst(output, 0) == 0) {
        end_file(output);
    }
    output->settings.kind->close(output->store);
    free(output);
}
