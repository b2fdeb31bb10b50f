"""Changes the TCP settings of both hosts (sysctl), and restores them at the end."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from acapella_core import names
from acapella_core.errors import UserError
from acapella_core.topology import Topology

from .cleanup import clean_up
from .nodes import OFFLOADS, Nodes
from .settings import check_algorithms

IPV4 = "/proc/sys/net/ipv4"
ALGORITHM = f"{IPV4}/tcp_congestion_control"
ALLOWED = f"{IPV4}/tcp_allowed_congestion_control"
# The kernel counts the memory of a segment, not its payload: up to 4 KiB for 1448 bytes. The send buffer grows to twice
# (BBR: three times) the memory of a congestion window (tcp_sndbuf_expand). So 8 times the payload suffices.
MEMORY_PER_BYTE = 8
MAX_BYTES = 1 << 30  # the kernel's values are signed 32-bit numbers
MIN_BYTES = 4 << 20
UNSENT_BYTES = 128 << 10  # maximum of unsent bytes in the send buffer; they do not arrive after iperf3 has stopped
MODULE = "/sys/module/tcp_bbr"
BUILT_IN = "^CONFIG_TCP_CONG_BBR=y"


class Hosts:
    """TCP settings of the hosts. `restore` sets the previous values."""

    def __init__(self, nodes: Nodes, hosts: Iterable[str]):
        self._nodes = nodes
        self._hosts = list(hosts)
        self._before: dict[tuple[str, str], str] = {}

    def set(self, path: str, value: str) -> None:
        """Set a value on all hosts. Raises UserError if the kernel rejects it."""
        for host in self._hosts:
            before = self._nodes.read(host, path)
            self._nodes.write(host, path, value)
            self._before.setdefault((host, path), before)

    def set_algorithm(self, name: str) -> None:
        """Set the default congestion control algorithm.

        Raises UserError if the kernel lacks the algorithm, or rejects it although it is allowed.

        In a namespace, the kernel accepts only the algorithms of tcp_allowed_congestion_control as default. iperf3
        selects the algorithm for its own connections, so a rejected write is not an error; transfer.py checks which
        algorithm the connections used. The reason is determined from the list, not from the message of the rejected
        write, because a shell may not print one.
        """
        check_algorithms([name], self._nodes.read(self._hosts[0], f"{IPV4}/tcp_available_congestion_control").split())
        try:
            self.set(ALGORITHM, name)
        except UserError:
            if all(name in self._nodes.read(host, ALLOWED).split() for host in self._hosts):
                raise

    def set_window(self, flight_bytes: int) -> None:
        """Let TCP buffer at least twice the given number of bytes in flight as payload, do not reuse metrics of earlier
        connections, and limit the unsent bytes. Print a warning if the kernel cannot buffer that many bytes.
        """
        needed = min(max(MEMORY_PER_BYTE * flight_bytes, MIN_BYTES), MAX_BYTES)
        if MEMORY_PER_BYTE * flight_bytes > MAX_BYTES:
            names.report(
                f"transfer: warning: {flight_bytes} bytes can be in flight; TCP's largest buffer, {MAX_BYTES} bytes, "
                "may hold less than twice as many"
            )
        for name in ("tcp_rmem", "tcp_wmem"):
            path = f"{IPV4}/{name}"
            existing = [self._nodes.read(host, path).split() for host in self._hosts]
            minimum, initial, _ = existing[0]
            maximum = max(needed, *(int(limit) for _, _, limit in existing))
            self.set(path, f"{minimum} {initial} {maximum}")
        self.set(f"{IPV4}/tcp_no_metrics_save", "1")
        self.set(f"{IPV4}/tcp_notsent_lowat", f"{UNSENT_BYTES}")

    def restore(self) -> None:
        """Restore all previous values, even if one of them cannot be set. Raises UserError."""
        steps = [partial(self._nodes.write, host, path, value) for (host, path), value in self._before.items()]
        self._before.clear()
        clean_up(steps, failed=False)

    def environment(self, topology: Topology) -> dict[str, Any]:
        """Return properties of the sender, and offloads of all nodes, that affect results, as in `cell.json`."""
        host = self._hosts[0]
        kernel = self._nodes.checked(host, ["uname", "-r"]).strip()
        ends = [ends for link in topology.links.values() for ends in (link.between, link.between[::-1])]
        active = {
            short for node, peer in ends for short in self._nodes.active_offloads(node, self._nodes.device(node, peer))
        }
        return {
            "kernel": kernel,
            "processors": int(self._nodes.checked(host, ["getconf", "_NPROCESSORS_ONLN"])),
            "bbr_version": self._bbr_version(host, kernel),
            "iperf3_version": self._nodes.checked(host, ["iperf3", "--version"]).split("\n")[0].strip(),
            "tcp_rmem": [int(word) for word in self._nodes.read(host, f"{IPV4}/tcp_rmem").split()],
            "tcp_notsent_lowat": int(self._nodes.read(host, f"{IPV4}/tcp_notsent_lowat")),
            "tcp_wmem": [int(word) for word in self._nodes.read(host, f"{IPV4}/tcp_wmem").split()],
            "offloads": {short: short in active for short in OFFLOADS.values()},
        }

    def _bbr_version(self, host: str, kernel: str) -> str:
        """Return the version of BBR: the version of its module, the kernel that contains it, or why it is unknown.

        Linux's module has no version number; the module of Google's BBRv3 has one.
        """
        if "bbr" not in self._nodes.read(host, f"{IPV4}/tcp_available_congestion_control").split():
            return "unknown: the kernel does not list bbr"
        module = self._nodes.run(host, ["cat", f"{MODULE}/version"])
        if module.status == 0:
            return f"{module.stdout.strip()} (module tcp_bbr), Linux {kernel}"
        if self._nodes.run(host, ["test", "-d", f"{MODULE}/holders"]).status == 0:
            return f"Linux {kernel}, module without a version"
        for command in (["zgrep", BUILT_IN, "/proc/config.gz"], ["grep", BUILT_IN, f"/boot/config-{kernel}"]):
            if self._nodes.run(host, command).status == 0:
                return f"Linux {kernel}, built in"
        return f"unknown: Linux {kernel} lists bbr, but has no module tcp_bbr, and its configuration cannot be read"
