/* Counts the packets of a capture. */
#ifndef ACAPELLA_FROM_FILE_H
#define ACAPELLA_FROM_FILE_H

#include "count/monitor.h"

/* Reads the file to its end. 0, or -1 after an error or a signal: see fault. */
int monitor_file(struct monitor *monitor, const char *path, struct fault *fault);

#endif
