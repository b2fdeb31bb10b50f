#include "common/interface.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define N "%" SCNu64
#define SKIP "%*s"

/* Parses the values after the name: eight of reception, then eight of transmission. */
static bool parse(const char *values, struct interface_counters *to) {
    return sscanf(values, N N N N N SKIP SKIP SKIP N N N N, &to->rx_bytes, &to->rx_packets, &to->rx_errors,
                  &to->rx_dropped, &to->rx_fifo, &to->tx_bytes, &to->tx_packets, &to->tx_errors,
                  &to->tx_dropped) == 9;
}

struct interface_counters read_interface_counters(const char *interface) {
    struct interface_counters counters = {0};
    FILE *file = *interface ? fopen("/proc/self/net/dev", "re") : NULL;
    char line[512];
    while (file && !counters.known && fgets(line, sizeof line, file)) {
        char *name = line + strspn(line, " ");
        char *colon = strchr(name, ':');
        if (colon && (size_t)(colon - name) == strlen(interface) &&
            strncmp(name, interface, strlen(interface)) == 0) {
            counters.known = parse(colon + 1, &counters);
        }
    }
    if (file) {
        fclose(file);
    }
    return counters;
}
