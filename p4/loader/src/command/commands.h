/* Statements on standard input while the program runs, each answered by a line on standard output. */
#ifndef ACAPELLA_P4_COMMANDS_H
#define ACAPELLA_P4_COMMANDS_H

#include "acapella_p4.h"

/* Executes those that are there, or come within that time; false: standard input has ended. */
bool p4_commands_attend(struct p4 *p4, int wait_ms);

#endif
