#include "command/frames.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/output.h"

static int write_fault(struct fault *fault, const char *path) {
    return fail(fault, "%.200s: %s%s", path, strerror(errno), write_advice(errno));
}

int p4_frames_open(struct frames *frames, const char *path, const struct p4 *p4, struct fault *fault) {
    *frames = (struct frames){.path = path, .p4 = p4};
    if (!path) {
        return 0;
    }
    if (asprintf(&frames->part, "%s.part", path) < 0) {
        frames->part = NULL;
        return fail(fault, "out of memory");
    }
    const int fd = publish_create(frames->part);
    frames->file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!frames->file) {
        return write_fault(fault, path);
    }
    fputs("time_ns\tport\tsequence\toutcome\treason\tkind\twire_bytes\tlength\thash\n", frames->file);
    return 0;
}

void p4_frames_put(const struct frames *frames, const struct p4_verdict *verdict) {
    static const char *const outcomes[P4_OUTCOMES] = {"sent",       "sunk",       "dropped",
                                                      "wrong-port", "headerless", "untimed"};
    if (!frames->file) {
        return;
    }
    fprintf(frames->file,
            "%" PRIu64 "\t%" PRIu32 "\t%" PRIu32 "\t%s\t%s\t%s\t%" PRIu32 "\t%" PRIu32 "\t%" PRIu32 "\n",
            verdict->ts_ns, verdict->port, verdict->sequence, outcomes[verdict->outcome],
            verdict->reason ? p4_reason(frames->p4, verdict->reason) : "",
            verdict->kind == P4_REPORT ? "report" : "frame", verdict->wire_bytes, verdict->length,
            verdict->hash);
}

int p4_frames_close(struct frames *frames, bool keep, struct fault *fault) {
    int status = 0;
    if (frames->file) {
        const bool complete = fflush(frames->file) == 0 && !ferror(frames->file);
        if (keep && (!complete || publish(fileno(frames->file), frames->part, frames->path) != 0)) {
            status = write_fault(fault, frames->path);
        }
        fclose(frames->file);
        if (!keep || status != 0) {
            unlink(frames->part);
        }
    }
    free(frames->part);
    *frames = (struct frames){0};
    return status;
}
