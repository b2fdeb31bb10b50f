/* The Tx queue of a packet that was not received from a queue. */
#ifndef ACAPELLA_REPLAY_FLOW_QUEUE_H
#define ACAPELLA_REPLAY_FLOW_QUEUE_H

#include <rte_mbuf.h>

/* Returns the queue, from 0, of a packet. It depends on the IP addresses only, or on the MAC addresses of a
 * packet without IP, so that all packets of a flow and their fragments have the same queue. */
unsigned flow_queue(const struct rte_mbuf *mbuf, unsigned queues);

#endif
