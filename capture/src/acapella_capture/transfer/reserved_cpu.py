"""Reserves a CPU for acapella-link: neither other programs of a transfer nor the kernel's TCP use it.

A write to a TUN device processes the packet in the kernel immediately, up to the TCP stack of the host. There, an
acknowledgment triggers data packets, which the kernel also processes before the write returns. acapella-link then sends
all later packets late, by milliseconds while a transfer starts. Therefore, the kernel must process packets that arrive
at a host on a different CPU (receive packet steering). Other programs must not run on the reserved CPU, because the CPU
that last sent packets of a socket handles the timers of this socket.

Receive packet steering needs CAP_NET_ADMIN outside of any user namespace, which only root has.
"""

import os
from collections.abc import Iterable

from .nodes import Nodes

MASK_BITS = 32  # length of a group in the kernel's CPU masks
STEER = 'mount -t sysfs sysfs /sys && printf "%s\\n" "$1" > "/sys/class/net/$2/queues/rx-0/rps_cpus"'


class ReservedCpu:
    """The last CPU that this process may use. It is reserved until `close`, unless it is the only one.

    Programs that are started afterwards inherit the remaining CPUs.
    """

    def __init__(self) -> None:
        self._allowed = os.sched_getaffinity(0)
        self._others = sorted(self._allowed)[:-1]
        if self._others:
            os.sched_setaffinity(0, self._others)

    @property
    def is_reserved(self) -> bool:
        """Return whether the CPU is reserved."""
        return bool(self._others)

    def assign(self, process: int) -> None:
        """Move a process to the reserved CPU."""
        if self._others:
            os.sched_setaffinity(process, {max(self._allowed)})

    def steer(self, nodes: Nodes, node: str, device: str) -> bool:
        """Make the kernel process packets that arrive at a node's interface on other CPUs. Return whether it does."""
        if not self._others:
            return False
        argv = ["unshare", "--mount", "sh", "-c", STEER, "sh", cpu_mask(self._others), device]
        return nodes.run(node, argv).status == 0

    def close(self) -> None:
        """Allow this process to use all of its CPUs again."""
        os.sched_setaffinity(0, self._allowed)


def cpu_mask(cpus: Iterable[int]) -> str:
    """Return a CPU mask of the kernel: hexadecimal groups of 32 bits, the highest first."""
    mask = sum(1 << number for number in cpus)
    groups = []
    while mask or not groups:
        groups.append(f"{mask % (1 << MASK_BITS):x}")
        mask >>= MASK_BITS
    return ",".join([groups[-1], *(group.zfill(MASK_BITS // 4) for group in reversed(groups[:-1]))])
