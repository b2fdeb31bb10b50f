#include "engine/inband.h"

#include <rte_errno.h>
#include <string.h>

int inband_open(struct inband *inband, const struct ports *ports, struct fault *fault) {
    inband->ports = ports;
    inband->written = inband->released = 0;
    for (unsigned i = 0; i < ports->count; ++i) {
        const int status = rte_eth_macaddr_get(ports->port[i].id, &inband->address[i]);
        if (status != 0) {
            return fail(fault, "--in-band: %s: no MAC address: %s", ports->port[i].name,
                        rte_strerror(-status));
        }
    }
    return 0;
}

static bool is_own_address(const struct inband *inband, const struct rte_ether_addr *address) {
    for (unsigned i = 0; i < inband->ports->count; ++i) {
        if (rte_is_same_ether_addr(address, &inband->address[i])) {
            return true;
        }
    }
    return false;
}

static bool is_control(const struct inband *inband, const struct rte_mbuf *mbuf) {
    if (mbuf->data_len < INBAND_SHORTEST) {
        return false;
    }
    const struct rte_ether_hdr *header = rte_pktmbuf_mtod(mbuf, const struct rte_ether_hdr *);
    return header->ether_type == RTE_BE16(INBAND_ETHER_TYPE) &&
           memcmp(header + 1, INBAND_MAGIC, sizeof INBAND_MAGIC - 1) == 0 &&
           is_own_address(inband, &header->dst_addr);
}

/* Copies a frame to the ring. Returns false if it is too long, or the ring is full. */
static bool copy(struct inband *inband, uint16_t number, const struct rte_mbuf *mbuf) {
    const uint32_t written = atomic_load_explicit(&inband->written, memory_order_relaxed);
    const uint32_t released = atomic_load_explicit(&inband->released, memory_order_acquire);
    if (mbuf->pkt_len > INBAND_LONGEST || written - released == INBAND_SLOTS) {
        return false;
    }
    struct inband_frame *frame = &inband->slot[written % INBAND_SLOTS];
    const void *bytes = rte_pktmbuf_read(mbuf, 0, mbuf->pkt_len, frame->data);
    if (bytes != frame->data) { /* the frame has a single segment */
        memcpy(frame->data, bytes, mbuf->pkt_len);
    }
    frame->port = number;
    frame->bytes = (uint16_t)mbuf->pkt_len;
    atomic_store_explicit(&inband->written, written + 1, memory_order_release);
    return true;
}

unsigned inband_take(struct inband *inband, struct traffic *traffic, uint16_t number, struct rte_mbuf **mbuf,
                     unsigned count) {
    unsigned kept = 0;
    for (unsigned i = 0; i < count; ++i) {
        if (likely(!is_control(inband, mbuf[i]))) {
            mbuf[kept++] = mbuf[i];
            continue;
        }
        if (copy(inband, number, mbuf[i])) {
            ++traffic->control;
        } else {
            ++traffic->control_dropped;
        }
        rte_pktmbuf_free(mbuf[i]);
    }
    return kept;
}

const struct inband_frame *inband_next(const struct inband *inband) {
    const uint32_t released = atomic_load_explicit(&inband->released, memory_order_relaxed);
    return atomic_load_explicit(&inband->written, memory_order_acquire) == released
               ? NULL
               : &inband->slot[released % INBAND_SLOTS];
}

void inband_release(struct inband *inband) {
    atomic_fetch_add_explicit(&inband->released, 1, memory_order_release);
}
