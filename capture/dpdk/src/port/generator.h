/* Generates frames at a set rate for a port that consists of rings, to measure the writer and the disk
 * without a network. If a ring is full, frames are lost, as at a NIC. */
#ifndef ACAPELLA_GENERATOR_H
#define ACAPELLA_GENERATOR_H

#include <rte_mempool.h>
#include <rte_ring.h>

#include "options.h"

#define GENERATOR_PORT "net_ring_generator"
#define GENERATOR_NUMBER_AT \
    42 /* offset of the frame's number, 8 bytes big-endian, after Ethernet, IPv4 and UDP */

struct generator {
    const struct options *options;
    struct rte_ring *ring[OPTIONS_QUEUES];
    struct rte_mempool *pool;
    double tsc_hz;
    _Atomic bool stop;
    /* offered = refused + received by the queues' threads + left */
    _Atomic uint64_t offered, refused;
    _Atomic uint64_t behind; /* due at the configured rate but not offered in time */
    uint64_t begin_tsc, end_tsc;
};

/* Returns the EAL memory for the frames, in bytes. */
uint64_t generator_memory(const struct options *options);

/* Creates the port GENERATOR_PORT. */
int generator_open(struct generator *generator, const struct options *options, struct fault *fault);

/* generator_start starts a thread that offers frames on a separate lcore; generator_stop ends it. Both do
 * nothing if the generator is not open. */
void generator_start(struct generator *generator, double tsc_hz);
void generator_stop(struct generator *generator);

/* Returns the number of frames that are still in the rings. */
uint64_t generator_left(const struct generator *generator);

double generator_seconds(const struct generator *generator);

#endif
