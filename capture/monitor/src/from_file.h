/* Counts the packets of a capture. */
#ifndef ACAPELLA_FROM_FILE_H
#define ACAPELLA_FROM_FILE_H

#include "count/monitor.h"

/* Reads the file to its end. Returns 0, or -1 with the reason in fault after an error or a signal. */
int monitor_file(struct monitor *monitor, const char *path, struct fault *fault);

#endif
