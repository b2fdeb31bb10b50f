"""Frames of a few flows, and a run of acapella digest in a separate directory."""

import functools
import sys
from pathlib import Path

import pyarrow.parquet as pq
from acapella_testing.new_files import new_directory
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from acapella.cli.main import main
from acapella.digest.acap_files import metadata_of
from acapella_core.files import sha256_of

START = 1_700_000_000_000_000_000


def frames(count: int) -> list[tuple[int, bytes]]:
    """Return frames of a few UDP and TCP flows."""
    return [_frame(i) for i in range(count)]


@functools.cache
def _frame(i: int) -> tuple[int, bytes]:
    """Return a frame, which scapy builds slowly."""
    transport = TCP(sport=1000 + i % 7, dport=80, seq=i * 10) if i % 3 else UDP(sport=9, dport=5000 + i % 5)
    frame = Ether(src="00:16:3e:00:00:01", dst="00:16:3e:00:00:02") / IP(src="10.0.0.1", dst="10.0.0.2") / transport
    return START + i * 1000, bytes(frame / Raw(b"x" * (i % 50)))


class Digest:
    """Runs the command in a separate directory and reads its output."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.acap, self.flows = (new_directory(directory / kind) / "t.parquet" for kind in ("acap", "flows"))

    def words(self, *sources: Path | str) -> list[str]:
        """Return the arguments of the command line; engine native."""
        return ["digest", *map(str, (*sources, "-o", self.acap, "--flows", self.flows, "--engine", "native"))]

    def argv(self, source: Path | str) -> list[str]:
        """Return the command line of a separate process."""
        return [sys.executable, "-m", "acapella.cli.main", *self.words(source)]

    def __call__(self, source: Path | str | list, *options: str) -> int:
        sources = source if isinstance(source, list) else [source]
        return main([*self.words(*sources), *options])

    def rows(self) -> list[dict]:
        """Return the rows of the acap."""
        return pq.read_table(self.acap).to_pylist()

    def written(self) -> list[str]:
        """Return the names of all files in the directory except captures."""
        return sorted(p.name for p in self.directory.rglob("*") if p.is_file() and p.suffix != ".pcap")

    def hashes(self) -> list[str]:
        return [sha256_of(path) for path in (self.acap, self.flows)]

    def metadata(self) -> dict:
        return metadata_of(self.acap)
