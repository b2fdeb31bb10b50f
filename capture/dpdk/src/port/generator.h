/* Frames of the program's own, offered at a set rate to a port made of rings: what a writer and a disk can
 * take, without a network. A ring that is full refuses, and what it refuses is lost, as at a NIC. */
#ifndef ACAPELLA_GENERATOR_H
#define ACAPELLA_GENERATOR_H

#include <rte_mempool.h>
#include <rte_ring.h>

#include "options.h"

#define GENERATOR_PORT "net_ring_generator"
#define GENERATOR_NUMBER_AT 42 /* each frame's number, 8 bytes big endian, after Ethernet, IPv4 and UDP */

struct generator {
    const struct options *options;
    struct rte_ring *ring[OPTIONS_QUEUES];
    struct rte_mempool *pool;
    double tsc_hz;
    _Atomic bool stop;
    /* offered = refused + received by the queues' threads + left */
    _Atomic uint64_t offered, refused;
    _Atomic uint64_t behind; /* due at the set rate and not offered, for want of time */
    uint64_t begin_tsc, end_tsc;
};

/* Bytes of memory that its frames need, for EAL. */
uint64_t generator_memory(const struct options *options);

/* Makes the port, which is then found by its name. */
int generator_open(struct generator *generator, const struct options *options, struct fault *fault);

/* Offers from an lcore of its own until generator_stop, which waits for its end. Nothing where it was not
 * opened. */
void generator_start(struct generator *generator, double tsc_hz);
void generator_stop(struct generator *generator);

/* Frames that are still in the rings. */
uint64_t generator_left(const struct generator *generator);

double generator_seconds(const struct generator *generator);

#endif
