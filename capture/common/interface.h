/* Counters of a network interface, from /proc/net/dev of this process's network namespace. */
#ifndef ACAPELLA_INTERFACE_H
#define ACAPELLA_INTERFACE_H

#include <stdbool.h>
#include <stdint.h>

struct interface_counters {
    bool known;
    uint64_t rx_bytes, rx_packets, rx_errors, rx_dropped, rx_fifo;
    uint64_t tx_bytes, tx_packets, tx_errors, tx_dropped;
};

/* Reads the counters; `known` is false if the name is empty or there is no such interface. */
struct interface_counters read_interface_counters(const char *interface);

/* The same for several interfaces, in one reading. */
void read_counters_of_interfaces(const char *const interface[], unsigned count,
                                 struct interface_counters counters[]);

#endif
