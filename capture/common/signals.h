/* Termination signals. A program that receives one writes its results and exits. */
#ifndef ACAPELLA_SIGNALS_H
#define ACAPELLA_SIGNALS_H

#include <signal.h>

/* The last signal received, or 0. */
extern volatile sig_atomic_t received_signal;

/* From now on, stores SIGTERM, SIGINT and SIGHUP in received_signal, and ignores SIGPIPE and SIGXFSZ, so that
 * a closed pipe and a limit on file sizes are reported as failed writes. */
void handle_signals(void);

/* Returns the name of received_signal. */
const char *signal_name(void);

#endif
