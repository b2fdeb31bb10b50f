#include "packets/tag.h"

#include <netinet/in.h>
#include <rte_ether.h>
#include <rte_icmp.h>
#include <rte_ip.h>
#include <rte_tcp.h>
#include <rte_udp.h>
#include <string.h>

#define MARK 0x6587
#define QINQ 0x88a8
#define LONGEST_802_3 1500
#define IPV6_HEADER 40

static void put16(uint8_t *to, uint16_t value) {
    to[0] = (uint8_t)(value >> 8);
    to[1] = (uint8_t)value;
}

static uint16_t get16(const uint8_t *from) { return (uint16_t)(from[0] << 8 | from[1]); }

static void write_trailer(uint8_t *to, int64_t ns, unsigned node, unsigned port) {
    for (unsigned i = 0; i < 8; ++i) {
        to[i] = (uint8_t)((uint64_t)ns >> (56 - 8 * i));
    }
    put16(to + 8, (uint16_t)node);
    put16(to + 10, (uint16_t)port);
    to[12] = to[1];
    to[13] = to[0];
    put16(to + 14, MARK);
}

/* Below, `size` includes the trailer. Headers that would reach into the trailer are not changed: the packet
 * may be truncated. */

/* Corrects the length and checksum of UDP, TCP, ICMP or ICMPv6 in `size` bytes. `pseudo` is the sum of the
 * pseudo-header, which the checksum of ICMP does not include. */
static void fix_layer4(uint8_t *at, size_t size, uint8_t protocol, uint16_t pseudo) {
    size_t offset = 0; /* of the checksum */
    switch (protocol) {
        case IPPROTO_UDP:
            offset = 6;
            break;
        case IPPROTO_TCP:
            offset = 16;
            break;
        case IPPROTO_ICMP:
        case IPPROTO_ICMPV6:
            offset = 2;
            break;
        default:
            return;
    }
    if (size < offset + 2 + TAG_BYTES) {
        return;
    }
    if (protocol == IPPROTO_UDP) {
        put16(at + 4, (uint16_t)size);
        if (get16(at + offset) == 0) {
            return; /* RFC 768: no checksum */
        }
    }
    memset(at + offset, 0, 2);
    uint32_t sum = rte_raw_cksum(at, size);
    sum += protocol == IPPROTO_ICMP ? 0 : pseudo;
    sum = (sum & 0xffff) + (sum >> 16);
    uint16_t value = (uint16_t)~sum;
    if (protocol == IPPROTO_UDP && value == 0) {
        value = 0xffff;
    }
    memcpy(at + offset, &value, 2);
}

static void fix_ipv4(uint8_t *at, size_t size) {
    struct rte_ipv4_hdr header;
    if (size < sizeof header + TAG_BYTES || size > UINT16_MAX) {
        return;
    }
    memcpy(&header, at, sizeof header);
    const size_t length = (size_t)(header.version_ihl & 15) * 4;
    if (header.version_ihl >> 4 != 4 || length < sizeof header || length + TAG_BYTES > size) {
        return;
    }
    put16(at + 2, (uint16_t)size);
    memset(at + 10, 0, 2);
    const uint16_t sum = (uint16_t)~rte_raw_cksum(at, length);
    memcpy(at + 10, &sum, 2);
    memcpy(&header, at, sizeof header);
    const uint16_t fragment = rte_be_to_cpu_16(header.fragment_offset);
    if ((fragment & (RTE_IPV4_HDR_MF_FLAG | RTE_IPV4_HDR_OFFSET_MASK)) == 0) {
        fix_layer4(at + length, size - length, header.next_proto_id, rte_ipv4_phdr_cksum(&header, 0));
    }
}

static void fix_ipv6(uint8_t *at, size_t size) {
    struct rte_ipv6_hdr header;
    if (size < IPV6_HEADER + TAG_BYTES || size - IPV6_HEADER > UINT16_MAX || at[0] >> 4 != 6) {
        return;
    }
    put16(at + 4, (uint16_t)(size - IPV6_HEADER));
    memcpy(&header, at, sizeof header);
    fix_layer4(at + IPV6_HEADER, size - IPV6_HEADER, header.proto, rte_ipv6_phdr_cksum(&header, 0));
}

/* Corrects a frame whose last bytes are the trailer. */
static void fix(uint8_t *frame, size_t size) {
    size_t at = 12;
    uint16_t type = get16(frame + at);
    while ((type == RTE_ETHER_TYPE_VLAN || type == QINQ) && at + 6 + TAG_BYTES <= size) {
        at += 4;
        type = get16(frame + at);
    }
    const size_t begin = at + 2;
    if (type <= LONGEST_802_3) {
        if (size - begin <= LONGEST_802_3) {
            put16(frame + at, (uint16_t)(size - begin));
        }
    } else if (type == RTE_ETHER_TYPE_IPV4) {
        fix_ipv4(frame + begin, size - begin);
    } else if (type == RTE_ETHER_TYPE_IPV6) {
        fix_ipv6(frame + begin, size - begin);
    }
}

bool tag_append(struct tagger *tagger, struct rte_mbuf *mbuf, const struct packet *packet,
                const struct options *options) {
    uint8_t *trailer = mbuf->nb_segs == 1 ? (uint8_t *)rte_pktmbuf_append(mbuf, TAG_BYTES) : NULL;
    if (!trailer) {
        return false;
    }
    int64_t *latest = &tagger->latest_ns[packet->port];
    *latest = packet->ts_ns > *latest ? packet->ts_ns : *latest + 1;
    write_trailer(trailer, *latest, options->node, packet->port);
    if (options->tag == TAG_FIXED) {
        fix(rte_pktmbuf_mtod(mbuf, uint8_t *), mbuf->data_len);
    }
    return true;
}
