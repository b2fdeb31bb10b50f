/* Reads the counters of ports before and after runs and recordings. */
#ifndef ACAPELLA_REPLAY_COUNTERS_H
#define ACAPELLA_REPLAY_COUNTERS_H

#include "control/session.h"

/* Reads the counters of a port (from 0). Those of the bridge are from the latest REQUEST_COUNT or
 * REQUEST_PAUSE, and those of packets that the kernel dropped are from the latest counters_count_drops. */
struct counters counters_read(const struct session *session, unsigned port);

/* Updates the numbers of packets that the kernel dropped. */
void counters_count_drops(struct session *session);

/* Reads the counters of all ports. */
void counters_read_all(struct session *session, struct counters counters[OPTIONS_PORTS]);

/* Reads `counters_before`. A bridge first receives what has arrived, which takes at most 100 ms. No run may
 * be active. */
void counters_read_before(struct session *session);

/* Reads `counters_after`. A bridge first receives what its interfaces have received, which takes at most 100
 * ms. */
void counters_read_after(struct session *session);

/* Returns the number of packets that the interface received between two readings, but that were neither
 * received by the bridge nor included in a loss counter. Packets that arrived during the second reading may
 * hide the same number of lost packets. */
uint64_t counters_not_received(const struct counters *after, const struct counters *before);

#endif
