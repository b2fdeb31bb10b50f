/* Two ports whose queues are rings, and a simulated clock, for tests and the benchmark. */
#ifndef ACAPELLA_REPLAY_RING_WORLD_H
#define ACAPELLA_REPLAY_RING_WORLD_H

#include <rte_ring.h>

#include "common/check.h"
#include "engine/bridge.h"
#include "engine/replay.h"

#define RING_SIZE 1024 /* a ring holds one packet fewer */
#define WORLD_QUEUES 4
#define START_NS 1700000000000000000LL

struct world {
    struct options options;
    struct ports ports;
    struct timebase time;
    struct recording recording;
    struct replay replay;
    unsigned ring_size;              /* 0: RING_SIZE */
    bool looped;                     /* each port receives what it sends */
    bool crossed;                    /* each port receives what the other one sends */
    struct rte_ring *in[2], *out[2]; /* queue 0: packets to receive, and packets sent */
    struct rte_ring *in_queue[2][WORLD_QUEUES], *out_queue[2][WORLD_QUEUES];
};

/* Starts EAL with `threads` threads besides the main one. */
void world_environment(unsigned memory_mb, unsigned threads);

/* Creates ports and an empty recording with the options in `world`; options of 0 become defaults. */
void world_open(struct world *world);

/* Checks that no mbuf is left in use. */
void world_close(struct world *world);

/* Returns a bridge between the two ports. */
struct bridge world_bridge(struct world *world);

/* Adds a packet of `bytes` bytes to the recording, filled from its number. */
void world_add(struct world *world, uint32_t number, uint32_t bytes, int64_t ts_ns, uint16_t port,
               bool first);

/* Returns an mbuf with the content of packet `number`. */
struct rte_mbuf *world_packet(const struct world *world, uint32_t number, uint32_t bytes);

/* Returns the number of a packet of world_packet, from its first four bytes. */
uint32_t world_number(const struct rte_mbuf *mbuf);

/* Returns true if an mbuf contains packet `number`. */
bool world_is_packet(const struct rte_mbuf *mbuf, uint32_t number, uint32_t bytes);

/* Builds the plan of a run and starts it at START_NS. */
void world_start(struct world *world, uint32_t loops, uint64_t speed_ppm);

/* Called with each packet that port `port` has sent; frees it. */
typedef void receiver(void *user, unsigned port, struct rte_mbuf *mbuf, int64_t now_ns);

/* Runs the replay with the simulated clock, which advances to the next due time, or by `stuck_ns` if the
 * driver does not accept packets. If `receive` is NULL, the rings are not read. */
void world_run(struct world *world, receiver *receive, void *user, int64_t stuck_ns);

/* Passes the packets in the rings of sent packets to `receive`, those of each queue in their order. */
void world_drain(struct world *world, receiver *receive, void *user);

#endif
