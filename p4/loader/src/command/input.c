#include "command/input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/files/capture_file.h"
#include "frame/plausible_time.hpp"

#define FORMATS CAPTURE_FILE_FORMATS " (acapella p4 run: also zstd, lz4)"

/* A capture and its next frame. */
struct source {
    const char *path;
    struct capture_file *file;
    bool pending;
    int end; /* one byte can be read from this descriptor if the capture is complete; -1 if none */
    struct p4_frame frame;
    uint64_t last_plausible_ns; /* time of the latest frame with a plausible time, as in the digest */
};

struct input {
    struct source source[P4_PORTS];
    unsigned count;
    uint8_t *bytes; /* bytes of the frames that were read together */
    size_t size, room;
};

static void set_time(struct p4_frame *frame, int64_t ts_ns, bool timed) {
    frame->untimed = !timed || ts_ns < 0 || ts_ns >= ACAPELLA_FIRST_IMPLAUSIBLE_NS;
    frame->ts_ns = ts_ns < 0 ? 0 : (uint64_t)ts_ns;
}

/* Returns -1 if the capture is incomplete because the program that writes to the descriptor was killed. */
static int check_end(const struct source *source, struct fault *fault) {
    char complete;
    ssize_t size = 1;
    if (source->end >= 0) {
        while ((size = read(source->end, &complete, 1)) < 0 && errno == EINTR) {
        }
    }
    return size == 1
               ? 0
               : fail(fault, "%.200s: the program that decompressed it was killed; run again", source->path);
}

/* Reads the next frame of a source. Returns 1, 0 at the end of the capture, or -1 with the reason in fault.
 */
static int advance(struct source *source, unsigned port, struct fault *fault) {
    struct blocks_frame next;
    int status = capture_file_next(source->file, &next, fault);
    if (status == 0 && check_end(source, fault) != 0) {
        status = -1;
    }
    source->pending = status == 1;
    if (!source->pending) {
        return status;
    }
    source->frame = (struct p4_frame){
        .port = port,
        .wire_bytes = next.wire_bytes,
        .kept_bytes = next.kept_bytes,
        .bytes = next.bytes,
    };
    set_time(&source->frame, next.ts_ns, next.timed);
    if (!source->frame.untimed) {
        source->last_plausible_ns = source->frame.ts_ns;
    }
    return status;
}

static int open_source(struct source *source, const char *path, int descriptor, int end, unsigned port,
                       struct fault *fault) {
    source->path = path;
    source->end = end;
    source->file = capture_file_open(path, descriptor, FORMATS, fault);
    return source->file && advance(source, port, fault) >= 0 ? 0 : -1;
}

struct input *p4_input_open(const char *const paths[], const int descriptors[], const int ends[],
                            unsigned count, struct fault *fault) {
    struct input *input = calloc(1, sizeof *input);
    if (!input) {
        fail(fault, "out of memory");
        return NULL;
    }
    for (; input->count < count; ++input->count) {
        struct source *source = &input->source[input->count];
        if (open_source(source, paths[input->count], descriptors[input->count], ends[input->count],
                        input->count, fault) != 0) {
            ++input->count;
            p4_input_close(input);
            return NULL;
        }
    }
    return input;
}

/* Returns the source with the earliest frame; for equal times, the lower port. */
static struct source *earliest(struct input *input) {
    struct source *earliest = NULL;
    for (unsigned i = 0; i < input->count; ++i) {
        struct source *source = &input->source[i];
        if (source->pending && (!earliest || source->last_plausible_ns < earliest->last_plausible_ns)) {
            earliest = source;
        }
    }
    return earliest;
}

static bool keep_bytes(struct input *input, const struct p4_frame *frame) {
    if (input->room - input->size < frame->kept_bytes) {
        const size_t room = (input->room + frame->kept_bytes) * 2;
        uint8_t *larger = realloc(input->bytes, room);
        if (!larger) {
            return false;
        }
        input->bytes = larger;
        input->room = room;
    }
    if (frame->kept_bytes) {
        memcpy(input->bytes + input->size, frame->bytes, frame->kept_bytes);
    }
    input->size += frame->kept_bytes;
    return true;
}

int p4_input_read(struct input *input, struct p4_frame *frames, unsigned max_frames, struct fault *fault) {
    unsigned count = 0;
    input->size = 0;
    for (struct source *source; count < max_frames && (source = earliest(input)); ++count) {
        frames[count] = source->frame;
        if (!keep_bytes(input, &source->frame)) {
            return fail(fault, "%.200s: out of memory", source->path);
        }
        if (advance(source, (unsigned)(source - input->source), fault) < 0) {
            return -1;
        }
    }
    const uint8_t *at = input->bytes; /* realloc may have moved it */
    for (unsigned i = 0; i < count; at += frames[i++].kept_bytes) {
        frames[i].bytes = at;
    }
    return (int)count;
}

bool p4_input_truncated(const struct input *input, unsigned port) {
    return capture_file_truncated(input->source[port].file);
}

void p4_input_close(struct input *input) {
    for (unsigned i = 0; i < input->count; ++i) {
        capture_file_close(input->source[i].file);
    }
    free(input->bytes);
    free(input);
}
