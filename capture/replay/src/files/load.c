#include "files/load.h"

#include <string.h>

#include "common/files/capture_file.h"
#include "packets/flow_queue.h"

/* Copies a frame into an mbuf. Returns NULL with the reason in fault on error. */
static struct rte_mbuf *copy_to_mbuf(const struct blocks_frame *frame, uint64_t number,
                                     const struct ports *ports, const struct options *options,
                                     struct fault *fault) {
    if (frame->kept_bytes > options->max_frame) {
        fail(fault, "packet %llu has %u bytes; raise --max-frame (%u)", (unsigned long long)number,
             frame->kept_bytes, options->max_frame);
        return NULL;
    }
    struct rte_mbuf *mbuf = rte_pktmbuf_alloc(ports->pool);
    if (!mbuf) {
        fail(fault, "packet %llu: no memory; raise --packets", (unsigned long long)number);
        return NULL;
    }
    if (frame->kept_bytes) {
        memcpy(rte_pktmbuf_mtod(mbuf, void *), frame->bytes, frame->kept_bytes);
    }
    mbuf->data_len = (uint16_t)frame->kept_bytes;
    mbuf->pkt_len = frame->kept_bytes;
    return mbuf;
}

/* Adds a frame. Packets with the same time and port are a burst, as in a file that was saved from a recording
 * with one time per burst. */
static int add(struct recording *recording, const struct blocks_frame *frame, const struct ports *ports,
               const struct options *options, struct fault *fault) {
    const uint64_t number = recording_packets(recording);
    if (!frame->timed) {
        return fail(fault, "packet %llu has no time (a simple packet block)", (unsigned long long)number);
    }
    if (frame->interface >= ports->count && ports->count > 1) {
        return fail(fault, "packet %llu belongs to interface %u, for which there is no --tx",
                    (unsigned long long)number, frame->interface);
    }
    if (recording_full(recording)) {
        return fail(fault, "more than %llu packets; raise --packets",
                    (unsigned long long)recording->capacity);
    }
    struct packet packet = {
        .mbuf = copy_to_mbuf(frame, number, ports, options, fault),
        .ts_ns = frame->ts_ns,
        .port = ports->count > 1 ? (uint16_t)frame->interface : 0,
        .first = true,
    };
    if (!packet.mbuf) {
        return -1;
    }
    packet.queue = (uint8_t)flow_queue(packet.mbuf, options->queues);
    if (number) {
        const struct packet *before = recording_at(recording, number - 1);
        packet.first = before->ts_ns != packet.ts_ns || before->port != packet.port;
        packet.unresolved = !packet.first;
    }
    recording_add(recording, &packet, TIMESTAMPS_FILE);
    return 0;
}

int load_file(struct recording *recording, const char *path, const struct ports *ports,
              const struct options *options, struct loaded *loaded, struct fault *fault) {
    struct blocks_frame frame;
    struct fault reason;
    *loaded = (struct loaded){0};
    struct capture_file *file = capture_file_open(path, -1, CAPTURE_FILE_FORMATS, fault);
    if (!file) {
        return -1;
    }
    int status = 1;
    while ((status = capture_file_next(file, &frame, fault)) == 1) {
        if (add(recording, &frame, ports, options, &reason) != 0) {
            status = fail(fault, "%.200s: %.200s", path, reason.text);
            break;
        }
        loaded->truncated_packets += frame.kept_bytes < frame.wire_bytes;
    }
    loaded->file_truncated = capture_file_truncated(file);
    capture_file_close(file);
    loaded->packets = recording_packets(recording);
    if (status == 0 && loaded->packets == 0) {
        status = fail(fault, "%.200s: contains no packets", path);
    }
    if (status < 0) {
        recording_clear(recording);
    }
    return status;
}
