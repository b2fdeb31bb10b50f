/* DPDK's environment for the threads of a capture, and the settings of its port. */
#ifndef ACAPELLA_ENVIRONMENT_H
#define ACAPELLA_ENVIRONMENT_H

#include "options.h"

struct port_settings port_settings_of(const struct options *options);

/* Starts EAL with the main thread, a thread per queue, and one for the generator if it is used. */
int port_start_eal(const struct options *options, struct fault *fault);

#endif
