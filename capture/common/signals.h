/* The signals that ask a program to end; what it has is written all the same. */
#ifndef ACAPELLA_ENDING_H
#define ACAPELLA_ENDING_H

#include <signal.h>

/* The one that came last; 0: none yet. */
extern volatile sig_atomic_t signaled;

/* From here on SIGTERM, SIGINT and SIGHUP are noted; a pipe that nobody reads and a file at its limit are
 * failed writes, with a message. */
void handle_signals(void);

/* Its name; only where one came. */
const char *signal_name(void);

#endif
