"""Generates campaigns of captures.

All captures have different addresses, ports and labels. Captures of different ports start at the same times.

A capture contains the headers of its frames (snap length 96) and is compressed with zstd to save disk space.
"""

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import yaml

from ..programs import Bench, Failed, native_program

SITES, PORTS = 28, 7
SNAPLEN = 96  # Ethernet, VLAN, two MPLS labels, control word, Ethernet, IPv4, and TCP with timestamps
GAP_NS = 300_000_000_000  # samples of a port start five minutes apart
START_NS = 1_700_000_000_000_000_000
FILES_PER_DIRECTORY = 1000


@dataclass(frozen=True)
class Archive:
    """The captures of a campaign. ``flows``: maximum number of directed flows in a capture."""

    captures: int
    frames: int  # of each capture
    flows: int

    def row(self, number: int) -> tuple[str, str, str, str]:
        """Return sample, site, port and file of a capture."""
        name = f"s{number:06}"
        file = f"captures/{number // FILES_PER_DIRECTORY:03}/{name}.pcap.zst"
        return name, f"SITE{number % SITES}", f"p{number // SITES % PORTS}", file

    def generator_arguments(self, number: int) -> list:
        """Return the arguments of acapella-generate."""
        start_ns = START_NS + number // (SITES * PORTS) * GAP_NS
        arguments = ["--frames", self.frames, "--flows", self.flows, "--snaplen", SNAPLEN, "--seed", number + 1]
        return [*arguments, "--first", number * (self.flows // 2), "--start-ns", start_ns]


def make_campaign(bench: Bench, directory: Path, archive: Archive, batch: int) -> int:
    """Write captures, sample sheet and config below ``directory``; return the total size of the captures in bytes.

    ``batch``: number of samples per batch. Captures are generated on two cores.
    """
    rows = [archive.row(number) for number in range(archive.captures)]
    for file in sorted({row[3] for row in rows}):
        (directory / "config" / file).parent.mkdir(parents=True, exist_ok=True)
    generate, compress = native_program("acapella-generate"), compressor()
    with ThreadPoolExecutor(max_workers=2) as pool:
        futures = [
            pool.submit(
                write_capture,
                generate,
                archive.generator_arguments(number),
                compress,
                directory / "config" / rows[number][3],
            )
            for number in range(archive.captures)
        ]
        size = sum(future.result() for future in futures)
    write_sheet(directory, rows)
    write_config(directory, "native", batch)
    return size


def compressor() -> list[str]:
    """Return the command line that compresses standard input. Raises Failed if zstd is not installed."""
    if (path := shutil.which("zstd")) is None:
        raise Failed("zstd is not installed: apt-get install zstd")
    return [path, "-1", "-q", "-c"]


def write_capture(generate: Path, arguments: list, compress: list[str], path: Path) -> int:
    """Generate a capture, compressed; return its size in bytes."""
    with path.open("wb") as target:
        command = [str(generate), *map(str, arguments)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as generator:
            compressed = subprocess.run(compress, stdin=generator.stdout, stdout=target, check=False)
        if generator.returncode or compressed.returncode:
            raise Failed(f"acapella-generate: {generator.returncode}, zstd: {compressed.returncode}")
    return path.stat().st_size


def write_sheet(directory: Path, rows: list[tuple]) -> None:
    """Write the sample sheet."""
    lines = (("sample", "site", "port", "file"), *rows)
    (directory / "config" / "samples.tsv").write_text(
        "".join("\t".join(line) + "\n" for line in lines), encoding="utf-8"
    )


def write_config(directory: Path, engine: str, batch: int) -> None:
    """Write the configuration. The default limit on the bytes of a batch is for larger captures."""
    config = {
        "campaign": "bench",
        "samples": "config/samples.tsv",
        "batches": {"samples": batch, "megabytes": 100_000},
        "digest": {"engine": engine},
    }
    (directory / "config" / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
