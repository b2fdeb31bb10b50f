"""A path with acapella-link between a generator and a monitor, and the schedule that follows from the seed.

`sent0` is connected to `router0`. The kernel forwards packets for CLEAN to `router1`, and those for IMPAIRED first
through the TUN device of acapella-link. `router1` is connected to `arrived0`.
"""

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from acapella_testing import processes
from acapella_testing.capture import veth
from acapella_testing.requirements import require, require_programs

CLEAN, IMPAIRED = "10.9.1", "10.9.2"
ROUTER_MAC, HOST_MAC = "02:00:00:00:00:02", "02:00:00:00:00:09"
EARLY_NS = 50_000  # acapella-link sends a packet at most this much early (2 * WAKE_MAX_NS in capture/link)
MASK = 2**64 - 1
IP_COMMANDS = f"""
link set router0 address {ROUTER_MAC}
route add {CLEAN}.0/24 dev router1
route add {IMPAIRED}.0/24 dev router1
neigh add {CLEAN}.1 lladdr {HOST_MAC} dev router1 nud permanent
neigh add {IMPAIRED}.1 lladdr {HOST_MAC} dev router1 nud permanent
rule add pref 10 to {IMPAIRED}.0/24 iif router0 lookup 90
"""
SYSCTLS = """
cd /proc/sys/net || exit
for each in ipv6/conf/*/disable_ipv6 ipv4/ip_forward; do echo 1 >$each || exit; done
for each in ipv4/conf/*/rp_filter; do echo 0 >$each || exit; done
"""


@dataclass(frozen=True)
class Impairments:
    """Settings of acapella-link; shares in parts per million."""

    delay_ns: int = 0
    loss_ppm: int = 0
    reorder_ppm: int = 0
    duplicate_ppm: int = 0
    seed: int = 1


class Link:
    """A running acapella-link with the device `link0`."""

    def __init__(self, process: subprocess.Popen):
        self._process = process

    def command(self, line: str) -> dict:
        """Send a command; return its answer."""
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self.answer()

    def answer(self) -> dict:
        """Return the next answer."""
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer
        return answer

    def set(self, to: Impairments) -> None:
        """Set the impairments for packets that arrive from now on."""
        self.command(f"set link0 {to.delay_ns} {to.loss_ppm} {to.reorder_ppm} {to.seed} {to.duplicate_ppm}")

    def counts(self) -> dict[str, int]:
        """Return the counts of the device."""
        return self.command("statistics")["links"]["link0"]


@contextlib.contextmanager
def path(program: Path) -> Iterator[tuple[tuple[str, ...], Link]]:
    """Yield a command prefix for the namespace of a path, and its link."""
    require(Path("/dev/net/tun").exists(), "no TUN devices")
    require_programs("ip", "taskset")
    with veth.namespace(("sent0", "router0"), ("router1", "arrived0")) as prefix:
        run(prefix, "sh", "-c", SYSCTLS)
        for line in IP_COMMANDS.strip().splitlines():
            run(prefix, "ip", *line.split())
        argv = [*prefix, "taskset", "-c", "0", program, "link0=/proc/self/ns/net"]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            link = Link(process)
            assert link.answer()["ready"]
            for line in ("link set link0 txqueuelen 10000 up", f"route add {IMPAIRED}.0/24 dev link0 table 90"):
                run(prefix, "ip", *line.split())
            try:
                yield prefix, link
            finally:
                process.stdin.close()
        assert process.returncode == 0


def arrived(prefix: tuple[str, ...], interface: str = "arrived0") -> int:
    """Return the number of packets that an interface has received."""
    shown = processes.run(*prefix, "cat", "/proc/net/dev", check=True).stdout
    return int(re.search(rf"(?m)^ *{interface}: *\d+ +(\d+)", shown)[1])  # after the bytes


def run(prefix: tuple[str, ...], *argv: str) -> None:
    """Run a command in the namespace; skip the test if it fails."""
    done = processes.run(*prefix, *argv)
    require(done.returncode == 0, f"{' '.join(argv)}: {done.stderr.strip()}")


def schedule(impairments: Impairments, packets: int) -> tuple[list[int], list[int], list[int]]:
    """Return three lists of sequence numbers: packets that leave immediately, packets that leave later, lost packets.

    SplitMix64 decides whether a packet is lost, copied and reordered, in this order (capture/link/src/direction.c).
    """
    state = impairments.seed

    def happens(ppm: int) -> bool:
        nonlocal state
        if ppm == 0:
            return False
        state = (state + 0x9E3779B97F4A7C15) & MASK
        mixed = state
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ mixed >> shift) * factor & MASK
        return ((mixed ^ mixed >> 31) >> 32) * 1_000_000 >> 32 < ppm

    immediate, later, lost = [], [], []
    for sequence in range(packets):
        if happens(impairments.loss_ppm):
            lost.append(sequence)
            continue
        copies = 2 if happens(impairments.duplicate_ppm) else 1
        target = immediate if happens(impairments.reorder_ppm) else later
        target += [sequence] * copies
    return immediate, later, lost
