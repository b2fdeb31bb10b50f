/* Receives probes through a packet socket, because net_af_packet has no timestamps. */
#ifndef ACAPELLA_REPLAY_PROBE_SOCKET_H
#define ACAPELLA_REPLAY_PROBE_SOCKET_H

#include <stddef.h>
#include <stdint.h>

#include "common/fault.h"

#define PROBE_ETHERTYPE 0x88b5 /* local experiments: IEEE 802, section 9.2.3 */

/* Opens a socket that receives all frames with PROBE_ETHERTYPE that arrive at an interface, including
 * those for other addresses. The caller closes it. Returns -1 with the reason in fault on error. */
int probe_socket_open(const char *interface, struct fault *fault);

/* Receives a frame without waiting. Returns its length, at most `size`, or 0 if there is no frame or it has
 * no time. Sets `ns` to the time at which the kernel received it (CLOCK_REALTIME). */
size_t probe_socket_receive(int fd, void *bytes, size_t size, int64_t *ns);

#endif
