/* Counts of a port, by the driver, the bridge and the network interface. */
#ifndef ACAPELLA_REPLAY_PORT_COUNTERS_H
#define ACAPELLA_REPLAY_PORT_COUNTERS_H

#include "common/interface.h"

struct counters {
    uint64_t sent, errors;
    uint64_t answered, forwarded; /* sent by the port, but not by a run */
    uint64_t missed, no_mbuf;     /* received packets that were lost: no descriptor or no mbuf was free */
    uint64_t received;            /* by a bridge */
    uint64_t kernel_dropped;      /* no room in the ring of net_af_packet */
    uint64_t awaited; /* rx_packets of the interface up to which reception was awaited; 0 if none */
    struct interface_counters interface;
};

#endif
