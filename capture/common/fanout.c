/* Replaces setsockopt(2) in a program. net_af_packet adds its sockets, even a single one, to a group
 * (PACKET_FANOUT) whose flags let the kernel reassemble IPv4 fragments (DEFRAG), and move the packets of a
 * flow to another socket if a ring is full (ROLLOVER). A capture must contain fragments as they arrived, and
 * a bridge must forward them and keep the packets of each flow in order. The driver has no option for this.
 * Its library may be loaded at run time, so the program must export this symbol. */
#include <linux/if_packet.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FLAGS_SHIFT 16

int setsockopt(int fd, int level, int name, const void *value, socklen_t size) {
    uint32_t group = 0; /* group ID, fanout type and flags */
    if (level == SOL_PACKET && name == PACKET_FANOUT && size == sizeof group) {
        memcpy(&group, value, sizeof group);
        group &= ~((uint32_t)(PACKET_FANOUT_FLAG_DEFRAG | PACKET_FANOUT_FLAG_ROLLOVER) << FLAGS_SHIFT);
        value = &group;
    }
    return (int)syscall(SYS_setsockopt, fd, level, name, value, size);
}
