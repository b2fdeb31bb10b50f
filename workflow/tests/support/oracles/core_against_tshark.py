"""Compare the core's dissection of captures with tshark's, frame by frame."""

import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

from acapella_testing.frames import pcap_files
from acapella_testing.native_programs import native_program
from acapella_testing.oracles.layer_agreement import FIELDS, Agreement

from acapella.common import tshark, vendors


def vendor_options(reference: tshark.Tshark) -> list:
    """Return the options that pass the vendor lists of ``reference`` to acapella-dump-frames; [] if it has none."""
    names = vendors.FILES if vendors.find(reference) else ()
    return [option for name in names for option in ("--vendors", vendors.directory_of(reference) / name)]


def rows(lines: Iterator[str], names: list[str]) -> Iterator[dict[str, str]]:
    for line in lines:
        yield dict(zip(names, line.rstrip("\n").split("\t"), strict=True))


def compare(
    reference: tshark.Tshark, files: list[Path], directory: Path, cut: int | None = None, *, answers: Path | None = None
) -> Agreement:
    """Compare the core with tshark on the frames of ``files``, merged and truncated to ``cut`` bytes.

    ``answers``: file for the rows of tshark. A later call with the same frames reads it instead of running tshark.
    """
    joined, ours = directory / "joined.pcapng", directory / "ours.tsv"
    theirs_file = answers or directory / "tshark.tsv"
    options = ["--write", joined, *vendor_options(reference), *(["--cut", str(cut)] if cut else [])]
    with ours.open("wb") as output:
        subprocess.run([native_program("acapella-dump-frames"), *options, *files], check=True, stdout=output,
                       stderr=subprocess.DEVNULL)  # fmt: skip
    if answers is None or not answers.exists():
        with theirs_file.open("wb") as output, reference.start(joined, FIELDS) as run:
            output.writelines(lines + b"\n" for lines in run.lines())
            run.finish()
    agreement = Agreement()
    with ours.open(encoding="utf-8") as mine, theirs_file.open(encoding="utf-8") as theirs:
        names = next(mine).rstrip("\n").split("\t")
        for pair in zip(rows(mine, names), rows(theirs, list(FIELDS)), strict=True):
            agreement.add(*pair)
    for file in (joined, ours, *([] if answers else [theirs_file])):
        file.unlink()
    return agreement


def pcap(frames: list[tuple[int, bytes]]) -> bytes:
    """Return a capture of frames given as (wire length, captured bytes)."""
    return pcap_files.header() + b"".join(pcap_files.record(10**9, frame, wire) for wire, frame in frames)


def vendor_prefixes(reference: tshark.Tshark) -> set[bytes]:
    """Return the three-byte prefixes in the vendor lists of ``reference``."""
    directory = vendors.directory_of(reference)
    lines = [line for name in vendors.FILES for line in (directory / name).read_text(encoding="utf-8").splitlines()]
    addresses = [line.split("\t")[0].split(" ")[0].replace("-", ":") for line in lines if not line.startswith("#")]
    parts = [address.split(":") for address in addresses if address.count(":") == 2 and "/" not in address]
    return {bytes(int(byte, 16) for byte in three) for three in parts}


def ethernet_frames(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (wire length, captured bytes) of the frames of a little-endian Ethernet pcap; nothing for other files."""
    data = path.read_bytes()
    if data[:4] != b"\xd4\xc3\xb2\xa1" or data[20:24] != b"\1\0\0\0":
        return
    at = 24
    while at + 16 <= len(data):
        captured, wire = struct.unpack("<II", data[at + 8 : at + 16])
        at += 16
        if captured > 65_535 or at + captured > len(data):
            return
        yield max(captured, wire), data[at : at + captured]
        at += captured
