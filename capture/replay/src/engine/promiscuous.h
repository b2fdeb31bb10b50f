/* Reception of frames for other addresses. */
#ifndef ACAPELLA_REPLAY_PROMISCUOUS_H
#define ACAPELLA_REPLAY_PROMISCUOUS_H

#include "common/fault.h"
#include "engine/ports.h"

/* Lets a started port receive frames for all addresses until promiscuous_end, or until the program ends.
 * Returns 0, or -1 with the reason in fault. */
int promiscuous_begin(struct port *port, struct fault *fault);

/* No effect if promiscuous_begin was not called. */
void promiscuous_end(struct port *port);

#endif
