#include "engine/recording.h"

#include <stdlib.h>
#include <unistd.h>

/* Writes to each page, so that the polling thread has no page faults, and memory does not run out later. */
static void touch(void *memory, size_t size) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    volatile char *bytes = memory;
    for (size_t at = 0; at < size; at += page) {
        bytes[at] = 0;
    }
}

int recording_open(struct recording *recording, uint64_t packets, struct fault *fault) {
    *recording = (struct recording){.capacity = packets};
    recording->packet = calloc(packets, sizeof *recording->packet);
    if (!recording->packet) {
        return fail(fault, "a recording of %llu packets: out of memory; lower --packets",
                    (unsigned long long)packets);
    }
    touch(recording->packet, packets * sizeof *recording->packet);
    return 0;
}

void recording_close(struct recording *recording) {
    if (recording->packet) {
        recording_clear(recording);
        free(recording->packet);
        recording->packet = NULL;
    }
}

void recording_add(struct recording *recording, const struct packet *packet, enum timestamps source) {
    recording->packet[recording->end % recording->capacity] = *packet;
    ++recording->end;
    recording->bytes += packet->mbuf->pkt_len;
    if (recording->timestamps == TIMESTAMPS_NONE) {
        recording->timestamps = source;
    } else if (recording->timestamps != source) {
        recording->timestamps = TIMESTAMPS_MIXED;
    }
}

void recording_remove(struct recording *recording) {
    struct packet *packet = recording_at(recording, 0);
    recording->bytes -= packet->mbuf->pkt_len;
    rte_pktmbuf_free(packet->mbuf);
    ++recording->begin;
    /* the rest of a burst begins with its second packet */
    if (recording_packets(recording)) {
        recording_at(recording, 0)->first = true;
    }
}

void recording_clear(struct recording *recording) {
    while (recording_packets(recording)) {
        recording_remove(recording);
    }
    recording->begin = recording->end = 0;
    recording->timestamps = TIMESTAMPS_NONE;
}

const char *timestamps_name(enum timestamps timestamps) {
    static const char *const names[] = {"none", "file", "device", "burst", "mixed"};
    return names[timestamps];
}
