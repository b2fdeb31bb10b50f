#include "engine/recording.h"

#include <stdlib.h>
#include <unistd.h>

#include "options.h"

#define STREAMS_MAX (OPTIONS_PORTS * QUEUES_MAX)

/* Writes to each page, so that the polling thread has no page faults, and memory does not run out later. */
static void touch(void *memory, size_t size) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    volatile char *bytes = memory;
    for (size_t at = 0; at < size; at += page) {
        bytes[at] = 0;
    }
}

int recording_open(struct recording *recording, uint64_t packets, bool merges, struct fault *fault) {
    *recording = (struct recording){.capacity = packets};
    recording->packet = calloc(packets, sizeof *recording->packet);
    recording->merged = merges ? calloc(packets, sizeof *recording->merged) : NULL;
    if (!recording->packet || (merges && !recording->merged)) {
        free(recording->packet);
        free(recording->merged);
        *recording = (struct recording){0};
        return fail(fault, "a recording of %llu packets: out of memory; lower --packets",
                    (unsigned long long)packets);
    }
    touch(recording->packet, packets * sizeof *recording->packet);
    if (merges) {
        touch(recording->merged, packets * sizeof *recording->merged);
    }
    return 0;
}

void recording_close(struct recording *recording) {
    if (recording->packet) {
        recording_clear(recording);
        free(recording->packet);
        free(recording->merged);
        recording->packet = recording->merged = NULL;
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

/* The packets of a port and queue that are not merged yet. */
struct stream {
    unsigned key;
    uint64_t at; /* position of the first one; the number of all packets if none is left */
    int64_t ns;  /* time of the first one */
};

static unsigned key_of(const struct packet *packet) { return packet->port * QUEUES_MAX + packet->queue; }

/* Moves a stream to its first packet from position `at`. */
static void seek(const struct recording *recording, struct stream *stream, uint64_t at) {
    const uint64_t packets = recording_packets(recording);
    while (at < packets && key_of(recording_at(recording, at)) != stream->key) {
        ++at;
    }
    stream->at = at;
    stream->ns = at < packets ? recording_at(recording, at)->ts_ns : 0;
}

/* Finds the ports and queues of the recording. Returns their number. */
static unsigned find_streams(const struct recording *recording, struct stream stream[STREAMS_MAX]) {
    bool known[STREAMS_MAX] = {false};
    unsigned streams = 0;
    for (uint64_t i = 0; i < recording_packets(recording); ++i) {
        const unsigned key = key_of(recording_at(recording, i));
        if (!known[key]) {
            known[key] = true;
            stream[streams].key = key;
            seek(recording, &stream[streams++], i);
        }
    }
    return streams;
}

/* Returns true if the next packet of a stream precedes that of another stream. If their times are equal, the
 * packet recorded first precedes. */
static bool precedes(const struct stream *stream, const struct stream *other, uint64_t packets) {
    if (stream->at == packets || other->at == packets) {
        return stream->at != packets;
    }
    return stream->ns < other->ns || (stream->ns == other->ns && stream->at < other->at);
}

void recording_merge(struct recording *recording) {
    const uint64_t packets = recording_packets(recording);
    struct stream stream[STREAMS_MAX];
    if (!recording->merged || recording->timestamps == TIMESTAMPS_BURST) {
        return; /* times of transmission are in order already */
    }
    const unsigned streams = find_streams(recording, stream);
    uint64_t expected = 0; /* position after the previous packet */
    for (uint64_t i = 0; i < packets; ++i) {
        struct stream *next = &stream[0];
        for (unsigned other = 1; other < streams; ++other) {
            next = precedes(&stream[other], next, packets) ? &stream[other] : next;
        }
        recording->merged[i] = *recording_at(recording, next->at);
        recording->merged[i].first |= next->at != expected; /* another burst came between */
        expected = next->at + 1;
        seek(recording, next, expected);
    }
    struct packet *packet = recording->packet;
    recording->packet = recording->merged;
    recording->merged = packet;
    recording->begin = 0;
    recording->end = packets;
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
