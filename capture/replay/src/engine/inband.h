/* Control messages in Ethernet frames that a bridge receives (--in-band). The polling thread copies them to a
 * ring, from which the main thread reads them. This file does not authenticate or interpret them. */
#ifndef ACAPELLA_REPLAY_INBAND_H
#define ACAPELLA_REPLAY_INBAND_H

#include <rte_ether.h>
#include <stdatomic.h>

#include "engine/ports.h"

#define INBAND_ETHER_TYPE 0x88B5 /* for local experiments: IEEE 802, section 9.2.3 */
#define INBAND_MAGIC "ACAPctl2"  /* follows the EtherType; lead.c sends frames of the same type without it */
#define INBAND_LONGEST 1514      /* bytes of a frame */
#define INBAND_SHORTEST 22       /* addresses, EtherType, INBAND_MAGIC */
#define INBAND_SLOTS 32          /* a power of 2 */

struct inband_frame {
    uint16_t port, bytes;
    uint8_t data[INBAND_LONGEST];
};

/* A ring with one writer and one reader. */
struct inband {
    const struct ports *ports;
    struct rte_ether_addr address[OPTIONS_PORTS];
    struct inband_frame slot[INBAND_SLOTS];
    _Atomic uint32_t written, released; /* frames since the start */
};

/* Reads the port addresses; only frames to these are accepted. Returns 0, or -1 with the reason in fault. */
int inband_open(struct inband *inband, const struct ports *ports, struct fault *fault);

/* Removes the control messages to this replayer from a burst that port `number` received, and counts them.
 * Returns the number of the other packets. */
unsigned inband_take(struct inband *inband, struct traffic *traffic, uint16_t number, struct rte_mbuf **mbuf,
                     unsigned count);

/* Returns the oldest frame in the ring, which is valid until inband_release, or NULL. */
const struct inband_frame *inband_next(const struct inband *inband);
void inband_release(struct inband *inband);

#endif
