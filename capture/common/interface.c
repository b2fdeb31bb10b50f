#include "common/interface.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define N "%" SCNu64
#define SKIP "%*s"

/* Parses the values after the name: eight Rx counters, then eight Tx counters. */
static bool parse(const char *values, struct interface_counters *to) {
    return sscanf(values, N N N N N SKIP SKIP SKIP N N N N, &to->rx_bytes, &to->rx_packets, &to->rx_errors,
                  &to->rx_dropped, &to->rx_fifo, &to->tx_bytes, &to->tx_packets, &to->tx_errors,
                  &to->tx_dropped) == 9;
}

void read_counters_of_interfaces(const char *const interface[], unsigned count,
                                 struct interface_counters counters[]) {
    FILE *file = fopen("/proc/self/net/dev", "re");
    char line[512];
    memset(counters, 0, count * sizeof *counters);
    while (file && fgets(line, sizeof line, file)) {
        char *name = line + strspn(line, " ");
        char *colon = strchr(name, ':');
        for (unsigned i = 0; colon && i < count; ++i) {
            if ((size_t)(colon - name) == strlen(interface[i]) &&
                strncmp(name, interface[i], strlen(interface[i])) == 0) {
                counters[i].known = parse(colon + 1, &counters[i]);
            }
        }
    }
    if (file) {
        fclose(file);
    }
}

struct interface_counters read_interface_counters(const char *interface) {
    struct interface_counters counters;
    read_counters_of_interfaces(&interface, 1, &counters);
    return counters;
}
