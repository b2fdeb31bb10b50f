#ifndef ACAPELLA_P4_PORTS_H
#define ACAPELLA_P4_PORTS_H

#include "pipeline/program.h"

extern struct rte_swx_port_in_ops p4_port_in;   /* argument: a struct port_in */
extern struct rte_swx_port_out_ops p4_port_out; /* argument: a struct port_out */

/* Handles a frame that left through a port: reports its verdict and frees its slot. */
void p4_port_sent(struct p4 *p4, enum wire_out port, const struct rte_swx_pkt *packet);

#endif
