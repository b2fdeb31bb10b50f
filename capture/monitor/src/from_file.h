/* Counts the packets of a capture. */
#ifndef ACAPELLA_FROM_FILE_H
#define ACAPELLA_FROM_FILE_H

#include "count/monitor.h"

/* Reads the file to its end or until a signal arrives. 0, or -1: see fault. */
int monitor_file(struct monitor *monitor, const char *path, struct fault *fault);

#endif
