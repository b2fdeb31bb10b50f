#include "common/ports/drain.h"

#include <rte_ethdev.h>
#include <time.h>

#define POLL_NS 1000000LL
#define DRAIN_UNKNOWN_NS 200000000LL /* 1,024 packets of 1,518 bytes at 100 Mbit/s take 125 ms */
#define DRAIN_LAST_NS 20000000LL     /* some drivers report only every 32nd descriptor */

static void sleep_for(int64_t ns) {
    const struct timespec pause = {0, ns};
    nanosleep(&pause, NULL);
}

bool port_drain(uint16_t port, uint16_t queue, uint16_t depth, bool nic, int64_t limit_ns) {
    const uint16_t latest = depth - 1; /* offset 0 is the next packet */
    int status;
    for (int64_t waited_ns = 0;
         (status = rte_eth_tx_descriptor_status(port, queue, latest)) == RTE_ETH_TX_DESC_FULL;
         waited_ns += POLL_NS) {
        if (waited_ns >= limit_ns) {
            return false;
        }
        sleep_for(POLL_NS);
    }
    if (nic) {
        sleep_for(status < 0 ? DRAIN_UNKNOWN_NS : DRAIN_LAST_NS);
    }
    return true;
}
