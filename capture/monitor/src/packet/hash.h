/* The identity of a packet, the same at every hop: the 128-bit hash of identity `invariant` of docs/kappa.md
 * (workflow/native/src/kappa/trial/). */
#ifndef ACAPELLA_HASH_H
#define ACAPELLA_HASH_H

#include "packet/headers.h"

struct identity {
    uint64_t high, low;
};

/* Hashes the innermost IP packet without TTL (hop limit), DSCP, ECN and the checksum of an IPv4 header;
 * without IP, the innermost EtherType and what follows it. The frame is truncated to `captured_bytes`. */
struct identity identity_of(const uint8_t *bytes, uint32_t captured_bytes, const struct headers *headers);

#endif
