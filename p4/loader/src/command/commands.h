/* Control statements on standard input while the program runs; the result of each is a line on standard
 * output. */
#ifndef ACAPELLA_P4_COMMANDS_H
#define ACAPELLA_P4_COMMANDS_H

#include "acapella_p4.h"

/* Executes statements that are available or arrive within `wait_ms`. Returns false at the end of input. */
bool p4_commands_poll(struct p4 *p4, int wait_ms);

#endif
