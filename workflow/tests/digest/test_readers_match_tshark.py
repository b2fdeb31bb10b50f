"""Compares the file readers with tshark: number of frames, times and lengths of every capture of the corpus.

mergecap merges the intact captures for tshark; it uses the same library and keeps the time and lengths of each frame.
tshark reads damaged captures separately. It also reads captures separately if a time differs: these differences must be
errors of tshark that schemas/tshark_errata.yaml lists.
"""

import struct
import subprocess
from pathlib import Path

import duckdb
import pytest
from acapella_testing.native_programs import native_program
from acapella_testing.new_files import write_file
from acapella_testing.processes import run
from acapella_testing.requirements import require_programs
from acapella_testing.soak import SOAK
from acapella_testing.source_tree import ROOT, script

from acapella.verify.comparison import load_errata

FILES_PER_MERGE = 400  # mergecap keeps all files open

# tshark does not support the link type of these captures and reads no frame.
NAMES = """
brcm-tag-prepend brcm-tag dsa-high-vid dsa edsa-high-vid edsa frf16_magic_ie-oobr hoobr_juniper3 juniper_es_oobr
juniper_monitor_invalid_cookie_length kday6 vtp_asan-2 vtp_asan-3 vtp_asan
"""
UNSUPPORTED = [f"tcpdump/{name}.pcap" for name in NAMES.split()]

Frame = tuple[int, int, int]  # ts_ns, wire_len, cap_len


def our_frames(files: list[Path]) -> dict[Path, tuple[list[Frame], str]]:
    """Return the frames of each file, and how the file ended, from the core's readers."""
    results: dict[Path, tuple[list[Frame], str]] = {}
    name, frames = Path(), []
    for line in run(native_program("acapella-dump-records"), *files, check=True).stdout.splitlines():
        if line.startswith("# END "):
            results[name] = (frames, line.split()[2])
        elif line.startswith("# ERROR "):
            results[name] = ([], line.split()[2])
        elif line.startswith("# "):
            name, frames = Path(line[2:]), []
        else:
            frames.append(tuple(map(int, line.split()[:3])))
    return results


def epoch_ns(text: str) -> int:
    """Return frame.time_epoch in ns; 0 if a frame has no time, as in the core's readers."""
    if not text:
        return 0
    seconds, fraction = text.removeprefix("-").split(".")
    time = int(seconds) * 10**9 + int(fraction)
    return -time if text.startswith("-") else time


def explained_by_erratum(ours: Frame, theirs: Frame) -> bool:
    """Return True if two frames differ only in time and an erratum explains tshark's time."""
    rules = " or ".join(f"({erratum['when']})" for erratum in load_errata() if erratum["excuses"] == "time")
    query = f"select {rules} from (select $ours::bigint as ts_ns, $theirs::bigint as tshark_ts_ns)"
    with duckdb.connect() as connection:  # an unread result on the shared connection would interfere
        (known,) = connection.execute(query, {"ours": ours[0], "theirs": theirs[0]}).fetchone()
    return known and ours[1:] == theirs[1:]


def tshark_frames(file: Path) -> list[Frame]:
    """Return the frames from tshark. tshark also numbers custom blocks, which are not frames and have no encapsulation
    type.
    """
    fields = ["frame.time_epoch", "frame.len", "frame.cap_len", "frame.encap_type"]
    done = run("tshark", "-n", "-r", file, "-T", "fields", *(word for f in fields for word in ("-e", f)))
    rows = (line.split("\t") for line in done.stdout.splitlines())
    return [(epoch_ns(time), int(wire), int(captured)) for time, wire, captured, encapsulation in rows if encapsulation]


@pytest.fixture(autouse=True)
def needs_tshark():
    require_programs("tshark", "mergecap")


@pytest.fixture(scope="module")
def captures(corpus) -> list[Path]:
    return sorted(f for directory in ("ndpi", "tcpdump") for f in (corpus / directory).rglob("*") if f.is_file())


@pytest.fixture(scope="module")
def ours(captures):
    return our_frames(captures)


def test_valid_captures_have_the_frames_of_tshark(captures, ours, corpus, tmp_path):
    intact = [f for f in captures if ours[f][1] == "clean" and str(f.relative_to(corpus)) not in UNSUPPORTED]
    assert len(intact) > 1300
    intact = intact if SOAK else intact[::2]
    merged = tmp_path / "merged.pcapng"
    differing = []
    for at in range(0, len(intact), FILES_PER_MERGE):
        batch = intact[at : at + FILES_PER_MERGE]
        subprocess.run(["mergecap", "-a", "-F", "pcapng", "-w", merged, *batch], check=True)
        theirs = iter(tshark_frames(merged))
        differing += [file for file in batch if ours[file][0] != [next(theirs, None) for _ in ours[file][0]]]
        assert next(theirs, None) is None, "tshark reads more frames than the core"
    assert differing, "no capture shows a wrong time of tshark"
    for file in differing:
        frames, reference = ours[file][0], tshark_frames(file)
        assert len(frames) == len(reference), file
        differ = [pair for pair in zip(frames, reference, strict=True) if pair[0] != pair[1]]
        assert differ and all(explained_by_erratum(*pair) for pair in differ), file


def test_damaged_captures_have_the_frames_of_tshark(captures, ours):
    damaged = [f for f in captures if ours[f][1] != "clean"]
    assert damaged
    assert [file for file in damaged if ours[file][0] != tshark_frames(file)] == []


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_captures_listed_as_unsupported_are_unsupported(name, ours, corpus):
    file = corpus / name
    frames, end = ours[file]
    assert end == "clean"
    assert frames and tshark_frames(file) == []


def pcap(*records: bytes) -> bytes:
    return struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 96, 1) + b"".join(records)


def record(caplen: int, wire_len: int = 60, present: int | None = None) -> bytes:
    size = min(caplen, 60) if present is None else present
    return struct.pack("<IIII", 1, 5, caplen, wire_len) + (bytes(range(16, 76)) * (size // 60 + 1))[:size]


VALID = record(60)
# The captures that the fuzz target starts with: one of every format and variant.
SEEDS = script(ROOT / "workflow" / "native" / "fuzz" / "seeds_reader.py").captures()


@pytest.mark.parametrize(
    ("name", "content"),
    {
        "header_only": pcap(),
        "cut_in_record_header": pcap(VALID, VALID[:9]),
        "cut_in_record": pcap(VALID, VALID[:40]),
        "caplen_above_snaplen": pcap(VALID, record(200, 1500, present=200), VALID),
        "caplen_of_4_gib": pcap(VALID, VALID, VALID, record(0xFFFFFFFF)),
        "caplen_too_large": pcap(VALID, VALID, VALID, record(262145), VALID),
        "zero_lengths": pcap(VALID, record(0, 0), record(0, 60), VALID),
        "wire_len_below_caplen": pcap(VALID, record(60, 10), VALID),
        "wire_len_of_4_gib": pcap(VALID, VALID, VALID, record(60, 0xFFFFFFFF)),
        "empty": b"",
        **SEEDS,
        **{f"{name}_cut": content[:-7] for name, content in SEEDS.items()},
    }.items(),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_formats_and_malformed_files_have_the_frames_of_tshark(name, content, tmp_path):
    """The exceptions are Ixia, whose nanoseconds tshark 4.0 reads as microseconds, and three truncated captures.

    If one of the first three records is truncated, tshark detects another variant of modified_smp and patched.
    """
    file = write_file(tmp_path / "capture", content)
    differs = name in ("ixia", "ixia_cut", "modified_smp_cut", "patched_cut")
    assert (our_frames([file])[file][0] != tshark_frames(file)) == differs
