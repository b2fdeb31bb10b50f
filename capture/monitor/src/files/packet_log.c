#include "files/packet_log.h"

#include <errno.h>
#include <string.h>

#define BUFFER (1U << 20)

static void note_error(struct packet_log *log) {
    if (log->error == 0) {
        log->error = errno ? errno : EIO;
    }
}

static void log_packet(void *user, const struct logged_packet *seen) {
    struct packet_log *log = user;
    const struct input_packet *packet = seen->packet;
    const struct packet_record record = {
        .arrival_ns = packet->arrival_ns,
        .high = seen->identity.high,
        .low = seen->identity.low,
        .flow = seen->stamp ? seen->stamp->flow : 0,
        .sequence = seen->stamp ? seen->stamp->sequence : 0,
        .wire_bytes = packet->wire,
        .stamped = seen->stamp != NULL,
    };
    /* the identity covers the bytes up to `end` */
    log->truncated += !packet->identified && packet->captured_bytes < packet->wire &&
                      seen->headers->end >= packet->captured_bytes;
    if (fwrite(&record, sizeof record, 1, log->file) != 1) {
        note_error(log);
    }
}

int packet_log_open(struct packet_log *log, const char *path, struct monitor *monitor, struct fault *fault) {
    *log = (struct packet_log){fopen(path, "wbxe"), path, 0, 0};
    if (!log->file) {
        return fail(fault, "%.200s: %s%s", path, strerror(errno), write_advice(errno));
    }
    setvbuf(log->file, NULL, _IOFBF, BUFFER);
    if (fwrite(PACKET_LOG_MAGIC, sizeof PACKET_LOG_MAGIC, 1, log->file) != 1) {
        note_error(log);
    }
    monitor->logger[monitor->loggers++] = (struct logger){log_packet, NULL, log};
    return 0;
}

int packet_log_close(struct packet_log *log, struct fault *fault) {
    if (!log->file) {
        return 0;
    }
    if (fclose(log->file) != 0) {
        note_error(log);
    }
    log->file = NULL;
    if (log->error == 0 && log->truncated > 0) {
        return fail(fault,
                    "%llu packets are truncated and have no hash, so lost packets cannot be identified; "
                    "capture whole packets, or use --write of acapella monitor",
                    (unsigned long long)log->truncated);
    }
    return log->error == 0
               ? 0
               : fail(fault, "%.200s: %s%s", log->path, strerror(log->error), write_advice(log->error));
}
