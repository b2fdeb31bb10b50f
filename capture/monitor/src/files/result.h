/* Writes the counts of all ports to a binary file, which acapella converts to tables
 * (capture/src/acapella_capture/monitor/result.py). All fields except names have 64 bits, in the byte
 * order of the machine:
 *
 *     magic, number of ports; then for each port:
 *     name without directory (256 bytes); struct port_counts; packets dropped by the kernel;
 *     packets missed by the device; number of clock steps, the largest step, and the time from
 *     which arrivals may follow a step; histograms of gaps and latencies; begin, length, number
 *     and early packets of the intervals; the intervals; number of flows with packets; then for
 *     each of these flows: index, struct flow, histograms of gaps and latencies
 */
#ifndef ACAPELLA_RESULT_H
#define ACAPELLA_RESULT_H

#include "count/monitor.h"

#define RESULT_MAGIC "ACMONv3"
#define RESULT_NAME 256 /* NAME_MAX + 1 */

struct result_port {
    const char *name;
    const struct monitor *monitor;
    uint64_t kernel_dropped, missed; /* packets that did not reach the program; 0 for a file */
    uint64_t clock_steps;            /* times that the system clock was set; 0 for a file */
    int64_t clock_step_ns, stepped_from_ns;
};

struct result {
    const struct result_port *port;
    uint64_t ports;
};

/* Returns 0, or -1 with the reason in fault. */
int result_write(const char *path, const struct result *result, struct fault *fault);

#endif
