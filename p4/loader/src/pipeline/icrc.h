/* The invariant CRC of RoCEv2 (InfiniBand Architecture, annex A17). */
#ifndef ACAPELLA_P4_ICRC_H
#define ACAPELLA_P4_ICRC_H

#include <stdbool.h>
#include <stdint.h>

#define ICRC_BYTES 4

/* Returns true for Ethernet, IPv4 without options, UDP to port 4791, and BTH, as p4_icrc requires. */
bool p4_icrc_applies(const uint8_t *frame, uint32_t length);

/* Computes the ICRC of a frame, which does not contain it yet; writes it to `to` in the order of
 * transmission. */
void p4_icrc(const uint8_t *frame, uint32_t length, uint8_t to[ICRC_BYTES]);

#endif
