/* Packets in memory in the order of their transmission. Their mbufs are not copied: each packet holds a
 * reference. The number of packets is limited; a rolling recording removes the oldest packets. */
#ifndef ACAPELLA_REPLAY_RECORDING_H
#define ACAPELLA_REPLAY_RECORDING_H

#include <rte_mbuf.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/fault.h"

enum timestamps {
    TIMESTAMPS_NONE,   /* the recording is empty */
    TIMESTAMPS_FILE,   /* from a capture file, one per packet */
    TIMESTAMPS_DEVICE, /* from the receiving device, one per packet */
    TIMESTAMPS_BURST,  /* from the TSC, one per burst at its transmission */
    TIMESTAMPS_MIXED,  /* from the device; from the TSC for packets that the device did not timestamp */
};

struct packet {
    struct rte_mbuf *mbuf;
    int64_t ts_ns;
    uint16_t port;   /* index of the Tx port */
    uint8_t queue;   /* its Tx queue; of a bridge, also the Rx queue */
    bool first;      /* first packet of its burst */
    bool unresolved; /* has the time of the burst, but is not its first packet */
};

struct recording {
    struct packet *packet;
    struct packet *merged; /* memory for recording_merge; NULL if unused */
    uint64_t capacity;     /* packets */
    uint64_t begin,
        end; /* positions of the oldest packet, and after the newest; indexes of `packet` modulo capacity */
    uint64_t bytes; /* sum of the packets' lengths */
    enum timestamps timestamps;
};

/* Allocates memory, with that of recording_merge if `merges`. Returns 0, or -1 with the reason in fault. */
int recording_open(struct recording *recording, uint64_t packets, bool merges, struct fault *fault);
void recording_close(struct recording *recording);

static inline uint64_t recording_packets(const struct recording *recording) {
    return recording->end - recording->begin;
}

/* Returns the packet at a position, from 0. */
static inline struct packet *recording_at(const struct recording *recording, uint64_t position) {
    return &recording->packet[(recording->begin + position) % recording->capacity];
}

static inline bool recording_full(const struct recording *recording) {
    return recording_packets(recording) == recording->capacity;
}

/* Adds a packet and takes over a reference to its mbuf. The recording must not be full. */
void recording_add(struct recording *recording, const struct packet *packet, enum timestamps source);

/* Removes the oldest packet. */
void recording_remove(struct recording *recording);

/* Merges the packets of all ports and queues by their times, if they have timestamps of the receiving device.
 * Packets of the same queue keep their order. No packets may be added during the merge. */
void recording_merge(struct recording *recording);

void recording_clear(struct recording *recording);

const char *timestamps_name(enum timestamps timestamps);

/* Adds a reference to all segments of an mbuf. */
static inline void mbuf_hold(struct rte_mbuf *mbuf) {
    if (likely(mbuf->nb_segs == 1)) {
        rte_mbuf_refcnt_update(mbuf, 1);
    } else {
        rte_pktmbuf_refcnt_update(mbuf, 1);
    }
}

#endif
