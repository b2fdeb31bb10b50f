/* A delayed direction: packets are read from a TUN device, kept for the delay, and written back. */
#ifndef ACAPELLA_LINK_DIRECTION_H
#define ACAPELLA_LINK_DIRECTION_H

#include <net/if.h>

#include "common/fault.h"
#include "queue.h"

#define LATE_BUCKETS 100000 /* of 1 us; the last one counts all later packets */

#define WAKE_STEP_NS 100
#define WAKE_MAX_NS 25000
#define EARLY_SHARE 10 /* of the delay: packets leave at most a tenth of it early */
#define EARLY_BUCKETS (2 * WAKE_MAX_NS / 1000 + 1) /* of 1 us */

struct settings {
    int64_t delay_ns;
    uint32_t loss_ppm, reorder_ppm, duplicate_ppm;
};

struct counts {
    uint64_t received, sent;
    uint64_t lost;       /* as requested */
    uint64_t reordered;  /* sent without delay, as requested */
    uint64_t duplicated; /* copies in addition to the packets received, as requested */
    uint64_t full;       /* dropped because the queue was full */
    uint64_t unsent;     /* rejected by the kernel */
    uint64_t largest;    /* largest number of packets in the queue */
};

struct direction {
    char name[IFNAMSIZ];
    int fd;
    struct settings settings;
    uint64_t random; /* state of the generator */
    int64_t last_due_ns;
    struct queue queue;
    struct counts counts;
    uint64_t late[LATE_BUCKETS]; /* by error; packets that left early are in the first bucket */
    uint64_t early[EARLY_BUCKETS];
    int64_t latest_ns, earliest_ns;
};

/* Opens the TUN device NAME in the network namespace that FILE refers to. `argument` is NAME=FILE. Returns 0,
 * or -1 with the reason in fault. */
int direction_open(struct direction *direction, const char *argument, size_t memory, struct fault *fault);
void direction_close(struct direction *direction);

/* Sets the values for the packets that arrive from now on, and clears the counts of delay errors. */
void direction_set(struct direction *direction, struct settings settings, uint64_t seed);

/* Reads the waiting packets, at most a batch. Returns 0, or -1 with the reason in fault. */
int direction_read(struct direction *direction, struct fault *fault);

/* Drops, sends or queues a packet that arrived at `now_ns`. */
void direction_take(struct direction *direction, int64_t now_ns, const uint8_t *bytes, size_t length);

/* Sends the packets that are due within `early_ns`, which is limited to a tenth of the delay. Returns the
 * time at which the next packet is to be sent, or INT64_MAX if the queue is empty. */
int64_t direction_send_due(struct direction *direction, int64_t early_ns);

/* Returns how late (early) packets left, in ns: the value that a share of the packets, in parts per 1000,
 * does not exceed. */
int64_t direction_late_ns(const struct direction *direction, unsigned per_mille);
int64_t direction_early_ns(const struct direction *direction, unsigned per_mille);

int64_t monotonic_ns(void);

/* Returns the estimated median time from the expiry of the timer until the program runs, updated with a
 * sample. */
int64_t wake_update(int64_t median_ns, int64_t sample_ns);

#endif
