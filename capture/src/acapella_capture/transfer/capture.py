"""Captures a transfer at the sender with tcpdump, and digests the capture with `acapella digest`."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from acapella_core.errors import OUTSIDE, UserError
from acapella_core.topology import Topology

from ..programs.tcpdump import Tcpdump
from .cleanup import clean_up
from .grid import Cell
from .nodes import ETHERNET_BYTES, MTU, Nodes
from .topology import SERVER_PORT

SNAPLEN = 100  # Ethernet, IPv4, TCP with options
BUFFER_KIB = 32_768
FILE = "wire.pcap"
FRAMES, FLOWS = "wire.parquet", "wire.flows.parquet"


@dataclass(frozen=True)
class Options:
    """The settings of CaptureSettings that Tcpdump uses."""

    filter: str
    snaplen: int = SNAPLEN
    buffer_kib: int = BUFFER_KIB


class Capture:
    """A running capture of a run's connections at the sender. The constructor returns when tcpdump captures frames.

    As a context manager, it ends tcpdump and discards the capture unless `stop` was called. The constructor raises
    UserError if tcpdump does not start.
    """

    def __init__(self, nodes: Nodes, topology: Topology, cell: Cell):
        self._nodes = nodes
        self._sender = topology.sender
        device = nodes.device(topology.sender, topology.paths[next(iter(topology.paths))][1])
        expression = f"tcp portrange {SERVER_PORT}-{SERVER_PORT + cell.streams - 1}"
        self._program = Tcpdump(nodes, topology.sender, device, Options(expression), FILE)
        self._stopped = False
        self._program.start()

    def __enter__(self) -> "Capture":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self._stopped:
            clean_up([self._program.kill], failed=kind is not None)

    def stop(self) -> dict[str, Any]:
        """End tcpdump once all frames are written; return the value of key `capture` of `cell.json`.

        Raises UserError if tcpdump failed.
        """
        counts = self._program.stop()
        self._stopped = True
        return {
            "frames": counts.captured if counts else None,
            "dropped": counts.dropped_kernel + counts.dropped_interface if counts else None,
            "snaplen": SNAPLEN,
            "file": FILE,
        }

    def fetch(self, directory: Path) -> None:
        """Move the capture to a directory."""
        self._nodes.fetch(self._sender, FILE, directory / FILE)


def digest(directory: Path) -> None:
    """Convert the capture in a directory to a frame table and a flow table. Raises UserError if that fails.

    The analysis uses only layers 2 to 4, so tshark is not started.
    """
    program = shutil.which("acapella", path=str(Path(sys.executable).parent)) or shutil.which("acapella")
    if program is None:
        raise UserError("acapella is missing; it converts captures", fix="make setup")
    argv = [program, "digest", str(directory / FILE), "-o", str(directory / FRAMES), "--flows", str(directory / FLOWS),
            "--engine", "native", "--threads", "1"]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        reason = lines[-1] if lines else f"exit status {done.returncode}"
        raise UserError(f"acapella digest failed: {reason}", where=FILE, outside=done.returncode == OUTSIDE)


def frames_over_mtu(directory: Path) -> int:
    """Return the number of frames of a digest that exceed the MTU: segments that were not yet split when captured."""
    lengths = pq.read_table(directory / FRAMES, columns=["wire_len"]).column("wire_len")
    return pc.sum(pc.greater(lengths, MTU + ETHERNET_BYTES)).as_py() or 0
