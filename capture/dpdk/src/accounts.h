/* The accounts of a capture, as JSON: the number of frames by outcome, and the counters of NIC and interface.
 */
#ifndef ACAPELLA_ACCOUNTS_H
#define ACAPELLA_ACCOUNTS_H

#include "capture.h"
#include "common/interface.h"

/* Writes the accounts to a temporary file and renames it; mode 0600. `before`: counters of the interface at
 * the start. */
int accounts_write(const struct capture *capture, const struct interface_counters *before, const char *path,
                   struct fault *fault);

/* Returns true if every received frame is in exactly one count, none is pending, and the counts of the
 * generator add up. */
bool accounts_balance(const struct capture *capture);

/* Returns the number of frames received so far on all queues. */
uint64_t accounts_received(const struct capture *capture);

#endif
