/* Waits until a device has sent the packets in its Tx queue: a device discards them when it is stopped. */
#ifndef ACAPELLA_DRAIN_H
#define ACAPELLA_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#define DRAIN_LIMIT_NS 10000000000LL /* pause frames can stop a link */

/* `depth`: descriptors of the queue. Returns false if packets are still in the queue after `limit_ns`. For
 * a NIC that cannot report its queue, waits for a fixed time. Other devices (`nic` is false) pass on packets
 * when they accept them. */
bool port_drain(uint16_t port, uint16_t queue, uint16_t depth, bool nic, int64_t limit_ns);

#endif
