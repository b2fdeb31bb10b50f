/* Rules that select packets by the 5-tuple of their innermost headers. */
#ifndef ACAPELLA_TUPLE_H
#define ACAPELLA_TUPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/fault.h"
#include "packet/headers.h"

#define TUPLE_RULES 64

struct tuple_prefix {
    uint8_t bytes[16];
    uint8_t bits; /* 0: any address */
};

struct tuple_rule {
    uint8_t ip_version; /* 0: any */
    bool any_protocol;
    uint8_t protocol;
    struct tuple_prefix src, dst;
    uint16_t src_port[2], dst_port[2]; /* first and last */
};

struct tuple_filter {
    struct tuple_rule rule[TUPLE_RULES];
    unsigned rules; /* 0: every packet passes */
};

/* Adds the rule PROTOCOL,SRC,SRC_PORT,DST,DST_PORT: a protocol is tcp, udp, sctp, icmp, icmpv6 or a number;
 * an address may have a prefix length, as in 10.0.0.0/8; a port may be a range, as in 1000-2000; * is
 * anything. Returns 0, or -1 with the reason in fault. */
int tuple_add(struct tuple_filter *filter, const char *text, struct fault *fault);

/* Returns true if the packet satisfies a rule. A packet without ports satisfies only rules without ports. */
bool tuple_passes(const struct tuple_filter *filter, const uint8_t *bytes, const struct headers *headers);

#endif
