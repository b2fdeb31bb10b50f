/* CHOIR's trailer, the last 16 bytes of a frame: time of arrival in ns (64 bits), node, port, check (16 bits
 * each), and 0x6587, all big-endian. The check is the first two bytes of the time in reverse (layout v2 in
 * docs/kappa.md). */
#ifndef ACAPELLA_REPLAY_TAG_H
#define ACAPELLA_REPLAY_TAG_H

#include "engine/recording.h"
#include "options.h"

#define TAG_BYTES 16

/* The latest time in a trailer by port: times in trailers are distinct, because they identify packets. If
 * the packets of a burst have the same time, each gets the next nanosecond. */
struct tagger {
    int64_t latest_ns[OPTIONS_PORTS];
};

/* Appends the trailer to a copy of a packet, and with TAG_FIXED corrects the lengths of IEEE 802.3, IPv4,
 * IPv6 and UDP, and the checksums of IPv4, TCP, UDP, ICMP and ICMPv6. A fragment keeps its layer-4 header.
 * Returns false if the mbuf has no room. */
bool tag_append(struct tagger *tagger, struct rte_mbuf *mbuf, const struct packet *packet,
                const struct options *options);

#endif
