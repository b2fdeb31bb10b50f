#include "packets/flow_queue.h"

#include <rte_ether.h>
#include <rte_jhash.h>
#include <string.h>

#define TYPE_AT 12
#define QINQ 0x88a8
#define IPV4_ADDRESSES_AT 12
#define IPV4_ADDRESSES 8
#define IPV6_ADDRESSES_AT 8
#define IPV6_ADDRESSES 32

static unsigned get16(const uint8_t *from) { return (unsigned)(from[0] << 8 | from[1]); }

unsigned flow_queue(const struct rte_mbuf *mbuf, unsigned queues) {
    const uint8_t *bytes = rte_pktmbuf_mtod(mbuf, const uint8_t *);
    const unsigned size = mbuf->data_len;
    if (queues == 1 || size < TYPE_AT) {
        return 0;
    }
    unsigned type_at = TYPE_AT;
    while (type_at + 6 <= size &&
           (get16(bytes + type_at) == RTE_ETHER_TYPE_VLAN || get16(bytes + type_at) == QINQ)) {
        type_at += 4;
    }
    const unsigned type = type_at + 2 <= size ? get16(bytes + type_at) : 0, header = type_at + 2;
    unsigned at = 0, length = TYPE_AT; /* both MAC addresses */
    if (type == RTE_ETHER_TYPE_IPV4 && header + IPV4_ADDRESSES_AT + IPV4_ADDRESSES <= size) {
        at = header + IPV4_ADDRESSES_AT;
        length = IPV4_ADDRESSES;
    } else if (type == RTE_ETHER_TYPE_IPV6 && header + IPV6_ADDRESSES_AT + IPV6_ADDRESSES <= size) {
        at = header + IPV6_ADDRESSES_AT;
        length = IPV6_ADDRESSES;
    }
    uint32_t key[IPV6_ADDRESSES / sizeof(uint32_t)]; /* rte_jhash reads aligned words */
    memcpy(key, bytes + at, length);
    return rte_jhash(key, length, 0) % queues;
}
