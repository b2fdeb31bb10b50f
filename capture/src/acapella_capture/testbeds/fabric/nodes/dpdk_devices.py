"""How DPDK captures the interfaces of a node: with DPDK's driver for the NIC, or from a socket.

DPDK's driver for ConnectX (mlx5) shares the NIC with the kernel, which keeps the interface. All other DPDK drivers
would take the NIC from the kernel, so their interfaces are captured from a socket (net_af_packet), as on testbed local.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from acapella_core.errors import UserError

from ...base import DpdkDevice, Testbed

SHARING_DRIVER = "mlx5_core"
HUGE_MB = 512  # huge pages for each receiver: frames of 9 KiB in a queue, and the tables of a P4 program
BOOT_MARGIN = 16  # pages beyond the need, because the kernel may use some
NONE = "-"
FIELDS = 4  # fields of each line that READ prints
# For each interface: name, driver, PCI address, and whether DPDK's driver can open the NIC (mlx5_ib).
READ = """
for dev; do
    at=/sys/class/net/$dev/device
    driver=- pci=- verbs=no
    if [ -e "$at/driver" ]; then driver=$(basename "$(readlink -f "$at/driver")"); fi
    if [ "$driver" = mlx5_core ]; then
        pci=$(basename "$(readlink -f "$at")")
        [ -d "$at/infiniband" ] || modprobe -a mlx5_ib ib_uverbs > /dev/null 2>&1
        [ -d "$at/infiniband" ] && verbs=yes
    fi
    echo "$dev $driver $pci $verbs"
done
"""
# `$1`: MB. Prints the numbers of pages that are needed and that are reserved. Fails if this would be more than half of
# the memory.
RESERVE = """set -e
size=$(awk '/^Hugepagesize:/ { print $2 }' /proc/meminfo)
total=$(awk '/^MemTotal:/ { print $2 }' /proc/meminfo)
[ -n "$size" ] && [ $(($1 * 2048)) -le "$total" ]
pages=/sys/kernel/mm/hugepages/hugepages-${size}kB/nr_hugepages
need=$((($1 * 1024 + size - 1) / size))
[ "$(cat "$pages")" -ge "$need" ] || echo "$need" > "$pages"
echo "$need $(cat "$pages")"
"""
# `$1`: pages. GRUB of Debian and Ubuntu reads all files of the directory.
RESERVE_AT_BOOT = """set -e
mkdir -p /etc/default/grub.d
printf 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX hugepages=%s"\\n' "$1" > /etc/default/grub.d/acapella.cfg
update-grub
"""
# `$1`: the program, then options of the device. The program starts and receives for a moment.
TRY = """program=$1; shift
rm -f try.*
"$program" "$@" --write try.pcap --writer sink --duration 0.1 > try.log 2>&1
status=$?
tail -n 1 try.log
rm -f try.*
exit $status
"""
PAGES = re.compile(r"([0-9]{1,18}) ([0-9]{1,18})\n")
TRY_S = 60
GRUB_S = 120


@dataclass(frozen=True)
class HugePages:
    """Huge pages that captures need, and those that the kernel has reserved (-1 if it cannot reserve any)."""

    needed: int
    reserved: int

    @property
    def enough(self) -> bool:
        return self.reserved >= self.needed


@dataclass(frozen=True)
class Nic:
    """An interface of a node: the driver of the kernel, and the PCI address if DPDK's driver can share it."""

    interface: str
    kernel_driver: str | None
    pci: str | None
    reason: str | None  # why DPDK's driver is not used


def read_nics(testbed: Testbed, node: str, interfaces: Sequence[str]) -> list[Nic]:
    """Return the interfaces of a node. Raises UserError."""
    printed = testbed.run(node, ["sh", "-c", READ, "sh", *interfaces]).stdout
    lines = [line.split() for line in printed.splitlines()]
    if [line[:1] for line in lines] != [[name] for name in interfaces] or {len(line) for line in lines} - {FIELDS}:
        raise UserError(f"cannot read the drivers of {', '.join(interfaces)}", where=f"node {node}")
    return [nic_of(*line) for line in lines]


def nic_of(interface: str, driver: str, pci: str, verbs: str) -> Nic:
    """Return an interface from a line that READ printed."""
    if driver != SHARING_DRIVER:
        kernel_driver = None if driver == NONE else driver
        return Nic(interface, kernel_driver, None, f"kernel driver {driver}" if kernel_driver else "no device driver")
    if verbs != "yes":
        return Nic(interface, driver, None, "kernel module mlx5_ib is not available")
    return Nic(interface, driver, pci, None)


def reserve(testbed: Testbed, node: str, receivers: int) -> HugePages:
    """Reserve huge pages for a number of receivers until the next boot; the kernel may find fewer. Raises UserError."""
    done = testbed.run(node, ["sh", "-c", RESERVE, "sh", str(HUGE_MB * receivers)])
    if done.status != 0:  # a kernel without huge pages, or little memory, which a reboot does not change
        return HugePages(0, -1)
    printed = PAGES.fullmatch(done.stdout)
    if printed is None:
        raise UserError(f"cannot read the huge pages: {done.stdout[:40]!r}", where=f"node {node}")
    return HugePages(int(printed[1]), int(printed[2]))


def reserve_at_boot(testbed: Testbed, node: str, pages: int) -> None:
    """Have the kernel reserve pages at the next boot, when memory is not fragmented. Raises UserError."""
    done = testbed.run(node, ["sh", "-c", RESERVE_AT_BOOT, "sh", str(pages + BOOT_MARGIN)], timeout_s=GRUB_S)
    if done.status != 0:
        lines = done.stderr.strip().splitlines()
        raise UserError(f"cannot reserve huge pages at boot: {lines[-1] if lines else done.status}",
                        where=f"node {node}")  # fmt: skip


def choose(testbed: Testbed, node: str, program: str, nic: Nic, *, huge_pages: bool) -> DpdkDevice:
    """Return the device for an interface: the NIC if the program starts with it, else the socket and the reason."""
    reason = nic.reason
    if nic.pci is not None:
        for huge in [True, False] if huge_pages else [False]:
            options = ["--pci", nic.pci, *(["--huge"] if huge else [])]
            done = testbed.run(node, ["sh", "-c", TRY, "sh", program, *options], timeout_s=TRY_S)
            if done.status == 0:
                return DpdkDevice(program, nic.pci, huge, nic.kernel_driver)
            reason = f"{nic.pci} cannot be used: {done.stdout.strip()}"
    return DpdkDevice(program, kernel_driver=nic.kernel_driver, reason=reason)
