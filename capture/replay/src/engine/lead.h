/* Measures the lead time of a port: the time from passing a packet to the driver until the packet departs.
 * With --pace single, each packet is passed to the driver this long before it is due. */
#ifndef ACAPELLA_REPLAY_LEAD_H
#define ACAPELLA_REPLAY_LEAD_H

#include <time.h>

#include "engine/ports.h"
#include "engine/timebase.h"

/* Functions of rte_ethdev.h that read the transmit timestamp and the clock of a NIC; tests use other
 * functions. */
struct lead_calls {
    int (*enable)(uint16_t port);
    int (*read_stamp)(uint16_t port, struct timespec *stamp);
    int (*read_time)(uint16_t port, struct timespec *now);
};
extern const struct lead_calls lead_driver_calls;

/* Sends probes and sets `port->lead` to the median of their lead times. `loop` is a port that receives what
 * `port` sends; its receive timestamps are used, or those of the kernel for net_af_packet. If it is NULL, the
 * driver's transmit timestamps are used. Without timestamps the lead stays unknown. Returns -1 with the
 * reason in fault on an error, for example if `loop` receives at most half of the probes, or the lead is
 * impossible. */
int lead_measure(struct port *port, struct port *loop, struct rte_mempool *pool, struct timebase *time,
                 const struct lead_calls *calls, struct fault *fault);

/* Measures all ports as requested by --measure-lead, and closes the ports that only received probes. */
int lead_measure_all(struct ports *ports, const struct options *options, struct timebase *time,
                     struct fault *fault);

const char *lead_source_name(enum lead_source source);

#endif
