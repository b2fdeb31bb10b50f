"""Capture of a transfer at the sender with tcpdump, and its digest by the program `acapella digest`."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from acapella_core.errors import UserError

from ..programs.tcpdump import last_counts
from ..testbeds.base import Job
from ..testbeds.local.processes import wait_until
from .grid import Cell
from .nodes import ETHERNET_BYTES, MTU, Nodes
from .topology import SERVER_PORT, Topology

SNAPLEN = 100  # Ethernet, IPv4, TCP with options
BUFFER_KIB = 32_768
START_S = 20
DRAIN_S = 1.2  # the kernel delivers at least once per second
FILE = "wire.pcap"
FRAMES, FLOWS = "wire.parquet", "wire.flows.parquet"


class Capture:
    """A running capture of a cell's connections at the sender. The constructor returns when tcpdump captures.

    Raises UserError if it does not start.
    """

    def __init__(self, nodes: Nodes, topology: Topology, cell: Cell):
        self._nodes = nodes
        self._sender = topology.sender
        device = nodes.device(topology.sender, topology.paths[next(iter(topology.paths))][1])
        argv = ["tcpdump", "-i", device, "-n", "-B", str(BUFFER_KIB), "-s", str(SNAPLEN), "--time-stamp-precision=nano"]
        ports = f"tcp portrange {SERVER_PORT}-{SERVER_PORT + cell.streams - 1}"
        self._job: Job = nodes.start(topology.sender, [*argv, "-w", "-", "--", ports], output=FILE)
        if not self._wait_for("listening on"):
            self._job.signal("KILL")
            raise UserError(f"tcpdump does not start: {self._message()}", where=f"node {topology.sender}")

    def stop(self) -> dict[str, Any]:
        """End the capture; return key `capture` of `cell.json`. Raises UserError if tcpdump failed."""
        wait_until(lambda: self._job.poll() is not None, timeout_s=DRAIN_S)
        self._job.signal("INT")
        if self._job.wait(START_S) != 0:
            self._job.signal("KILL")
            raise UserError(f"tcpdump failed: {self._message()}", where=f"node {self._sender}")
        counts = last_counts(self._job.log())
        return {
            "frames": counts.captured if counts else None,
            "dropped": counts.dropped_kernel + counts.dropped_interface if counts else None,
            "snaplen": SNAPLEN,
            "file": FILE,
        }

    def abandon(self) -> None:
        """End the capture without result."""
        self._job.signal("KILL")
        self._job.wait(START_S)

    def fetch(self, directory: Path) -> None:
        """Move the capture to a directory."""
        self._nodes.fetch(self._sender, FILE, directory / FILE)

    def _wait_for(self, text: str) -> bool:
        wait_until(lambda: text in self._job.log() or self._job.poll() is not None, timeout_s=START_S)
        return text in self._job.log()

    def _message(self) -> str:
        lines = self._job.log().strip().splitlines()
        return lines[-1] if lines else "no message"


def digest(directory: Path) -> None:
    """Convert the capture in a directory to a frame table and a flow table. Raises UserError if that fails.

    Layers 2 to 4 suffice, so tshark is not started.
    """
    program = shutil.which("acapella", path=str(Path(sys.executable).parent)) or shutil.which("acapella")
    if program is None:
        raise UserError("acapella is missing; it converts captures", fix="make setup")
    argv = [program, "digest", str(directory / FILE), "-o", str(directory / FRAMES), "--flows", str(directory / FLOWS),
            "--engine", "native", "--threads", "1"]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise UserError(f"acapella digest failed: {lines[-1] if lines else done.returncode}", where=FILE)


def frames_over_mtu(directory: Path) -> int:
    """Return how many frames of a digest are longer than the MTU permits: segments before an offload cut them."""
    lengths = pq.read_table(directory / FRAMES, columns=["wire_len"]).column("wire_len")
    return pc.sum(pc.greater(lengths, MTU + ETHERNET_BYTES)).as_py() or 0
