"""Capture with acapella-dpdk-capture (capture/dpdk) on a node: its command line, and its counts."""

import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar

from acapella_core.errors import UserError

from ..settings import CaptureSettings
from ..testbeds.base import DpdkDevice, Job, Testbed
from .executables import find_executable
from .tcpdump import Counts

T = TypeVar("T")

PROGRAM = "acapella-dpdk-capture"
AF_PACKET = "net_af_packet"
FANOUT = "could not set PACKET_FANOUT"  # message of net_af_packet
STARTS = 5  # attempts to start a program whose fanout group is taken
START_S = 20  # timeout for the program to start capturing
STOP_S = 20  # timeout for writing all received frames
FRAME_HEAD = 66 + 14  # bytes before a frame in AF_PACKET's ring; Ethernet header, which the MTU excludes
BLOCK = 65536
LIMITS = "id -u; cut -c 23- /proc/self/uid_map | tail -n 1; ulimit -l"
INITIAL_USER_IDS = 2**32 - 1  # user ids in the initial user namespace; in others, root's locked memory is limited
MAX_MTU = 32768 - FRAME_HEAD  # sizes of the ring's frames are powers of 2, and 65536 bytes do not fit into an mbuf
QUEUE = 512  # frames in the program's own memory; further frames wait in the kernel's ring


class FanoutTakenError(UserError):
    """The program could not join its fanout group, which contains a socket of a different interface.

    DPDK's net_af_packet joins group (process id XOR interface index) modulo 2^16 of its network namespace, so that two
    programs may need the same group. A new process joins a different one.
    """


def failure(program: str, output: str, **details: Any) -> UserError:
    """Return the error with the last message of a DPDK program, and the lines of DPDK before it, which give the cause.

    ``output``: standard error of the program; ``details``: arguments of UserError.
    """
    lines = output.strip().splitlines() or ["no message"]
    message = lines[-1].removeprefix(f"{program}: ").removeprefix("error: ")
    causes = list(takewhile(lambda line: not line.startswith(f"{program}: "), reversed(lines[:-1])))
    if causes:
        message += f" (DPDK: {'; '.join(reversed(causes))})"
    return (FanoutTakenError if FANOUT in output else UserError)(message, **details)


def start_with_retries(start: Callable[[], T]) -> T:
    """Return the result of ``start``, which starts a program: try up to STARTS times if its fanout group is taken."""
    for _ in range(STARTS - 1):
        with suppress(FanoutTakenError):
            return start()
    return start()


def executable() -> str:
    """Return the program's path. Raises UserError if it was not built."""
    return find_executable(
        PROGRAM,
        where="capture.method dpdk",
        fix="apt-get install libdpdk-dev liburing-dev libpcap-dev, then make setup; or use method tcpdump",
    )


def device(interface: str, mtu: int, buffer_kib: int) -> tuple[str, int]:
    """Return the net_af_packet device whose ring fits whole frames of an interface, and its frame size.

    Raises UserError if a frame does not fit into an mbuf.
    """
    if mtu > MAX_MTU:
        raise UserError(
            f"MTU {mtu} is too large for DPDK's net_af_packet", where=interface, fix=f"ip link set {interface} mtu 9000"
        )
    frame = 2048
    while frame < mtu + FRAME_HEAD:
        frame *= 2
    count = max(buffer_kib * 1024 // BLOCK, 1) * (BLOCK // frame)
    return f"{AF_PACKET}0,iface={interface},blocksz={BLOCK},framesz={frame},framecnt={count}", frame


def ring_kib(buffer_kib: int, limits: str) -> int:
    """Return the ring size that a node's limits allow.

    net_af_packet locks the ring, and a transmit ring of the same size, in memory.

    `limits` is the output of LIMITS: the user id, the number of ids in the last range of the user namespace, the limit
    on locked memory in KiB.
    """
    user, user_ids, locked = limits.split()
    if locked == "unlimited" or (user == "0" and user_ids == str(INITIAL_USER_IDS)):
        return buffer_kib
    return min(buffer_kib, int(locked) // 2)


def lost_before(accounts: dict[str, Any]) -> tuple[int, int]:
    """Return the number of frames that did not fit into the device's queue, and of those that the interface rejected.

    net_af_packet does not count frames that arrive when its ring is full: their number is the difference between the
    counts of the interface and of the program. A NIC counts such frames itself; the kernel does not see the frames that
    DPDK receives from it.
    """
    if accounts["device"]["driver"] != AF_PACKET:
        nic = accounts["nic"]
        return nic["imissed"] + nic["rx_nombuf"], nic["ierrors"]
    interface = accounts["interface"]
    lost = max(0, interface["rx_packets"] - accounts["frames"]["received"])
    return lost, interface["rx_errors"] + interface["rx_fifo"]


def counts_of(accounts: dict[str, Any]) -> Counts:
    """Return the program's counts in the terms of tcpdump. Raises ValueError if one is not a count."""
    frames = accounts["frames"]
    lost, rejected = lost_before(accounts)
    dropped = sum(frames["dropped"].values()) + lost
    counts = Counts(
        captured=frames["written"],
        received=frames["written"] + dropped,
        dropped_kernel=dropped,
        dropped_interface=rejected,
        sampled_out=frames["sampled_out"],
        preprocessed=not_sent(accounts["p4"]),
    )
    check_counts(counts.captured, counts.received, dropped, rejected, counts.sampled_out, *counts.preprocessed.values())
    return counts


def check_counts(*counts: object) -> None:
    """Raise ValueError unless all are counts of 63 bits: the program may run on a node, whose output is untrusted."""
    if not all(type(count) is int and 0 <= count < 1 << 63 for count in counts):
        raise ValueError("not a count")


def not_sent(p4: dict[str, Any] | None) -> dict[str, int]:
    """Return the numbers of frames that the P4 program did not send, by the reason that it set, or else by outcome."""
    if p4 is None:
        return {}
    lost = {name: p4[name] for name in ("dropped", "wrong_port", "headerless") if p4[name]}
    return dict(sorted((p4["sunk"] | lost).items()))


def facts_of(accounts: dict[str, Any], chosen: DpdkDevice | None) -> dict[str, Any]:
    """Return manifest key `dpdk`: the device, and the dropped frames by place. Raises ValueError for wrong types."""
    device = accounts["device"]
    lost, _ = lost_before(accounts)
    check_counts(lost, *accounts["frames"]["dropped"].values())
    return {
        "device": str(device["name"]),
        "driver": str(device["driver"]),
        "huge_pages": bool(device["huge_pages"]),
        "kernel_driver": chosen and chosen.kernel_driver,
        "reason": chosen and chosen.reason,
        "dropped": {"queue_full": lost, **accounts["frames"]["dropped"]},
    }


class Dpdk:
    """One capture. `start` returns when the program captures, `stop` when all frames are written."""

    def __init__(self, testbed: Testbed, node: str, interface: str, settings: CaptureSettings, output: str):
        self.where = f"{PROGRAM} on {node}"
        self._testbed = testbed
        self._node = node
        self._interface = interface
        self._settings = settings
        self._output = output
        self._job: Job | None = None
        self._device: DpdkDevice | None = None
        self.facts: dict[str, Any] | None = None  # manifest key `dpdk`, after the end

    def start(self) -> None:
        """Start the program. Raises UserError with its message if it ends or does not listen in time."""
        self._device = self._testbed.dpdk_device(self._node, self._interface)
        self._remove_previous()
        start_with_retries(self._start)

    def _start(self) -> None:
        self._job = self._testbed.start(self._node, self._argv())
        end = time.monotonic() + START_S
        while "listening on" not in self._job.log():
            if self._job.poll() is not None or time.monotonic() > end:
                self._job.signal("KILL")
                raise failure(PROGRAM, self._job.log(), where=f"{self.where}: cannot start")
            time.sleep(0.02)

    def alive(self) -> bool:
        """Return whether the program is still running."""
        return self._job.poll() is None

    def stop(self) -> Counts:
        """Stop the program, which writes all received frames, and return its counts. Raises UserError if it failed."""
        self._job.signal("INT")
        status = self._job.wait(STOP_S)
        if status != 0:
            self._job.signal("KILL")
            raise failure(PROGRAM, self._job.log(), where=f"{self.where}: failed")
        path = self._accounts()
        read = self._testbed.run(self._node, ["cat", path])
        self._testbed.run(self._node, ["rm", "-f", path])
        try:
            accounts = json.loads(read.stdout)
            json.dumps(accounts, ensure_ascii=False).encode()  # fails for lone surrogates, which JSON may contain
            self.facts = facts_of(accounts, self._device)
            return counts_of(accounts)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise UserError(f"malformed counts: {type(error).__name__}", where=self.where) from error

    def _argv(self) -> list[str]:
        settings = self._settings
        program = executable() if self._device is None else self._device.program
        argv = [program, *self._device_argv(), "--buffers", "8",
                "--write", self._path(self._output), "--snaplen", str(settings.snaplen),
                "--sample", str(settings.one_in), "--sample-by", settings.one_in_by]  # fmt: skip
        return argv + (["--filter", settings.filter] if settings.filter else [])

    def _device_argv(self) -> list[str]:
        """Return the options of the device and its queue; a NIC has the default queue length."""
        if self._device is not None and self._device.pci is not None:
            return ["--pci", self._device.pci, *(["--huge"] if self._device.huge_pages else [])]
        limits = self._testbed.run(self._node, ["sh", "-c", LIMITS]).stdout
        try:
            ring = ring_kib(self._settings.buffer_kib, limits)
        except ValueError as error:
            raise UserError(f"malformed limits: {limits[:40]!r}", where=self.where) from error
        vdev, frame = device(self._interface, self._mtu(), ring)
        return ["--vdev", vdev, "--max-frame", str(frame), "--depth", str(QUEUE)]

    def _remove_previous(self) -> None:
        """Remove the files of a killed collection: the program never overwrites files."""
        if self._device is not None:  # other testbeds have a new directory for each collection
            paths = [self._path(self._output), self._accounts()]
            self._testbed.run(self._node, ["rm", "-f", *paths, *(f"{path}.part" for path in paths)])

    def _accounts(self) -> str:
        return self._path(Path(self._output).with_suffix(".json").name)

    def _path(self, file: str) -> str:
        return self._testbed.path_on_node(self._node, file)

    def _mtu(self) -> int:
        result = self._testbed.run(self._node, ["ip", "-o", "link", "show", "dev", self._interface])
        match = re.search(r" mtu ([0-9]{1,9}) ", result.stdout)
        if match is None:
            raise UserError(f"no interface {self._interface}: {result.stderr.strip()}", where=self.where)
        return int(match[1])


class Fpga(Dpdk):
    """A capture after a P4 program, which the capture program runs in DPDK's software pipeline, not in a NIC."""

    def _argv(self) -> list[str]:
        settings = self._settings
        program = ["--p4", self._provided(settings.p4_program)]
        control = ["--p4-control", self._provided(settings.p4_control)] if settings.p4_control else []
        return [*super()._argv(), *program, *control]

    def _provided(self, path: str) -> str:
        return self._testbed.provide(self._node, Path(path))
