#include "port/generator.h"

#include <rte_byteorder.h>
#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_launch.h>
#include <rte_mbuf.h>
#include <rte_udp.h>
#include <string.h>

#include "counts.h"

#define CACHE 256
#define GROUP_MAX 32      /* frames enqueued at once, as NICs do */
#define GROUP_NS 10000    /* longest delay of the first frame of a group */
#define BEHIND_MAX 256    /* delayed frames beyond this number are skipped: a link does not catch up */
#define DISCARD_PORT 9    /* RFC 863 */
#define NETWORK 0xC61200U /* first 24 bits of 198.18.0.0/15, RFC 2544 */

static unsigned mbuf_count(const struct options *options) {
    return options->queues * (options->depth + options->burst + 2 * CACHE) + 2 * CACHE + GROUP_MAX;
}

uint64_t generator_memory(const struct options *options) {
    const uint64_t mbuf_bytes = sizeof(struct rte_mbuf) + RTE_PKTMBUF_HEADROOM + options->generate + 128;
    return options->generate ? mbuf_count(options) * mbuf_bytes : 0;
}

/* Writes the frame into each buffer once, without its number: like a NIC, the generator does not load frames
 * into its CPU's caches. */
static void fill(struct rte_mempool *pool, void *argument, void *object, unsigned index) {
    const struct options *options = argument;
    struct rte_mbuf *mbuf = object;
    uint8_t *frame = (uint8_t *)mbuf->buf_addr + RTE_PKTMBUF_HEADROOM;
    const uint16_t size = (uint16_t)(options->generate - RTE_ETHER_HDR_LEN);
    struct rte_ether_hdr ethernet = {.dst_addr.addr_bytes = {2, 0, 0, 0, 0, 2},
                                     .src_addr.addr_bytes = {2, 0, 0, 0, 0, 1},
                                     .ether_type = RTE_BE16(RTE_ETHER_TYPE_IPV4)};
    struct rte_ipv4_hdr ip = {
        .version_ihl = RTE_IPV4_VHL_DEF,
        .total_length = rte_cpu_to_be_16(size),
        .time_to_live = 64,
        .next_proto_id = IPPROTO_UDP,
        .src_addr = RTE_BE32(NETWORK << 8 | 1),
        .dst_addr = RTE_BE32(NETWORK << 8 | 2),
    };
    struct rte_udp_hdr udp = {.src_port = RTE_BE16(DISCARD_PORT),
                              .dst_port = RTE_BE16(DISCARD_PORT),
                              .dgram_len = rte_cpu_to_be_16((uint16_t)(size - sizeof ip))};
    (void)pool;
    ip.hdr_checksum = rte_ipv4_cksum(&ip);
    memset(frame, (int)index, options->generate);
    memcpy(frame, &ethernet, sizeof ethernet);
    memcpy(frame + sizeof ethernet, &ip, sizeof ip);
    memcpy(frame + sizeof ethernet + sizeof ip, &udp, sizeof udp);
}

int generator_open(struct generator *generator, const struct options *options, struct fault *fault) {
    const int socket = (int)rte_socket_id();
    const uint16_t room = (uint16_t)(options->generate + RTE_PKTMBUF_HEADROOM);
    generator->options = options;
    generator->pool = rte_pktmbuf_pool_create("generated", mbuf_count(options), CACHE, 0, room, socket);
    if (!generator->pool) {
        return fail(fault, "--generate: memory: %s; raise --memory-mb or lower --depth",
                    rte_strerror(rte_errno));
    }
    rte_mempool_obj_iter(generator->pool, fill, (void *)(uintptr_t)options);
    for (unsigned queue = 0; queue < options->queues; ++queue) {
        char name[32];
        snprintf(name, sizeof name, "generated%u", queue);
        generator->ring[queue] =
            rte_ring_create(name, options->depth, socket, RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
        if (!generator->ring[queue]) {
            return fail(fault, "--generate: a ring of %u frames: %s; lower --depth", options->depth,
                        rte_strerror(rte_errno));
        }
    }
    /* DPDK rejects a port without a Tx queue; nothing is sent on it. */
    if (rte_eth_from_rings("generator", generator->ring, options->queues, generator->ring, options->queues,
                           (unsigned)socket) < 0) {
        return fail(fault, "--generate: a port of %u rings: %s; see the lines above, or use fewer --queues",
                    options->queues, rte_strerror(rte_errno));
    }
    return 0;
}

static void offer(struct generator *generator, struct rte_ring *ring, unsigned frames) {
    struct rte_mbuf *mbuf[GROUP_MAX];
    const uint16_t size = (uint16_t)generator->options->generate;
    const uint64_t number = atomic_load_explicit(&generator->offered, memory_order_relaxed);
    unsigned accepted = 0;
    if (rte_pktmbuf_alloc_bulk(generator->pool, mbuf, frames) == 0) {
        for (unsigned i = 0; i < frames; ++i) {
            const rte_be64_t written = rte_cpu_to_be_64(number + i);
            mbuf[i]->data_len = size;
            mbuf[i]->pkt_len = size;
            memcpy(rte_pktmbuf_mtod_offset(mbuf[i], uint8_t *, GENERATOR_NUMBER_AT), &written,
                   sizeof written);
        }
        accepted = rte_ring_enqueue_burst(ring, (void **)mbuf, frames, NULL);
        rte_pktmbuf_free_bulk(mbuf + accepted, frames - accepted);
    }
    add_count(&generator->offered, frames);
    add_count(&generator->refused, frames - accepted);
}

/* Returns the number of frames to offer now: 0 if fewer than `group` are due, and at most GROUP_MAX. Skips
 * frames that are too late. */
static unsigned due_frames(struct generator *generator, double per_tick, unsigned group) {
    const uint64_t total = (uint64_t)((double)(rte_rdtsc() - generator->begin_tsc) * per_tick);
    uint64_t due = total - generator->offered - generator->behind;
    if (due < group) {
        return 0;
    }
    if (due > BEHIND_MAX) {
        add_count(&generator->behind, due - BEHIND_MAX);
        due = BEHIND_MAX;
    }
    return due < GROUP_MAX ? (unsigned)due : GROUP_MAX;
}

static int run(void *argument) {
    struct generator *generator = argument;
    const struct options *options = generator->options;
    const double frames_per_group = options->rate * GROUP_NS / 1e9;
    const unsigned group = frames_per_group < 1           ? 1
                           : frames_per_group < GROUP_MAX ? (unsigned)frames_per_group
                                                          : GROUP_MAX;
    unsigned queue = 0;
    generator->begin_tsc = rte_rdtsc();
    while (!generator->stop) {
        const unsigned frames =
            options->rate > 0 ? due_frames(generator, options->rate / generator->tsc_hz, group) : GROUP_MAX;
        if (frames == 0) {
            rte_pause();
            continue;
        }
        offer(generator, generator->ring[queue], frames);
        queue = queue + 1 < options->queues ? queue + 1 : 0;
    }
    generator->end_tsc = rte_rdtsc();
    return 0;
}

void generator_start(struct generator *generator, double tsc_hz) {
    if (generator->options) {
        generator->tsc_hz = tsc_hz;
        rte_eal_remote_launch(run, generator, generator->options->queues + 1);
    }
}

void generator_stop(struct generator *generator) {
    if (generator->options) {
        generator->stop = true;
        rte_eal_wait_lcore(generator->options->queues + 1);
    }
}

uint64_t generator_left(const struct generator *generator) {
    uint64_t left = 0;
    for (unsigned queue = 0; generator->options && queue < generator->options->queues; ++queue) {
        left += rte_ring_count(generator->ring[queue]);
    }
    return left;
}

double generator_seconds(const struct generator *generator) {
    const uint64_t end = generator->end_tsc ? generator->end_tsc : rte_rdtsc();
    return generator->tsc_hz > 0 ? (double)(end - generator->begin_tsc) / generator->tsc_hz : 0;
}
