/* Properties of DPDK's drivers that the drivers do not report. */
#ifndef ACAPELLA_DRIVERS_H
#define ACAPELLA_DRIVERS_H

#include <stdbool.h>
#include <string.h>

/* Returns true if each queue is a separate socket or capture handle, even if it is not read: frames of a
 * queue that is not read are lost. */
static inline bool driver_has_fixed_queues(const char *driver) {
    return strcmp(driver, "net_af_packet") == 0 || strcmp(driver, "net_pcap") == 0 ||
           strcmp(driver, "net_af_xdp") == 0;
}

#endif
