/* The accounts of a capture, as JSON: what became of every frame, beside what NIC and interface counted. */
#ifndef ACAPELLA_ACCOUNTS_H
#define ACAPELLA_ACCOUNTS_H

#include "capture.h"

/* Counters of the kernel's interface, /proc/net/dev. */
struct interface_counters {
    bool known;
    uint64_t rx_bytes, rx_packets, rx_errors, rx_dropped, rx_fifo;
};

struct interface_counters interface_counters(const char *interface);

/* Writes them whole or not at all (temporary name, then rename), 0600. `before`: of the interface, at the
 * start. */
int accounts_write(const struct capture *capture, const struct interface_counters *before, const char *path,
                   struct fault *fault);

/* True where every frame received is in exactly one count, and no error lost any. */
bool accounts_balance(const struct capture *capture);

/* Frames received so far, over all queues. */
uint64_t accounts_received(const struct capture *capture);

#endif
