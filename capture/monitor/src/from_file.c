#include "from_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files/capture_file.h"
#include "common/signals.h"

/* Packets are copied, because the bytes of a frame are only valid until the next one is read. */
#define BATCH_BYTES (1U << 20)

struct batch {
    struct input_packet packet[MONITOR_BURST];
    unsigned count;
    uint32_t used;
    uint8_t *bytes;
};

static void count_batch(struct monitor *monitor, struct batch *batch) {
    monitor_burst(monitor, batch->packet, batch->count);
    batch->count = 0;
    batch->used = 0;
}

static void add_frame(struct monitor *monitor, struct batch *batch, const struct blocks_frame *frame) {
    if (batch->count == MONITOR_BURST || frame->kept_bytes > BATCH_BYTES - batch->used) {
        count_batch(monitor, batch);
    }
    uint8_t *bytes = batch->bytes + batch->used;
    memcpy(bytes, frame->bytes, frame->kept_bytes);
    batch->packet[batch->count++] =
        (struct input_packet){bytes, frame->kept_bytes, frame->wire_bytes, frame->ts_ns, false, {0, 0}};
    if (frame->identity) {
        struct input_packet *packet = &batch->packet[batch->count - 1];
        uint64_t big[2];
        memcpy(big, frame->identity, sizeof big);
        packet->identified = true;
        packet->identity = (struct identity){__builtin_bswap64(big[0]), __builtin_bswap64(big[1])};
    }
    batch->used += frame->kept_bytes;
}

/* An interrupted run is an error, because the packets after the signal would count as lost. */
static int interrupted(const char *path, struct fault *fault) {
    return fail(fault, "%.200s: interrupted by %s", path, signal_name());
}

int monitor_file(struct monitor *monitor, const char *path, struct fault *fault) {
    struct blocks_frame frame;
    struct batch batch = {.bytes = malloc(BATCH_BYTES)};
    struct capture_file *file = NULL;
    int status = 0;
    if (!batch.bytes) {
        return fail(fault, "out of memory");
    }
    file = capture_file_open(path, -1, CAPTURE_FILE_FORMATS, fault);
    if (!file) {
        free(batch.bytes);
        return received_signal ? interrupted(path, fault) : -1;
    }
    while (!received_signal && (status = capture_file_next(file, &frame, fault)) == 1) {
        if (!frame.timed) {
            status = fail(fault, "%.200s: a packet without a time; use a capture with timestamps", path);
            break;
        }
        add_frame(monitor, &batch, &frame);
    }
    count_batch(monitor, &batch);
    if (received_signal) {
        status = interrupted(path, fault);
    }
    if (status >= 0 && capture_file_truncated(file)) {
        fprintf(stderr, PROGRAM ": %s: truncated; its complete packets are counted\n", path);
    }
    capture_file_close(file);
    free(batch.bytes);
    return status < 0 ? -1 : 0;
}
