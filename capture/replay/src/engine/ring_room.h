/* The room for a frame in the rings of net_af_packet. */
#ifndef ACAPELLA_REPLAY_RING_ROOM_H
#define ACAPELLA_REPLAY_RING_ROOM_H

#include "engine/ports.h"

/* Sets `ring_room` of a port from its device argument framesz. Returns 0, or -1 with the reason in fault. */
int ring_room_find(struct port *port, const struct options *options, struct fault *fault);

#endif
