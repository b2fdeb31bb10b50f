"""Compares the core's layers 2 to 4 with tshark's, frame by frame: the corpus whole, truncated, wrapped, and damaged.

Captures are merged, with one run of tshark for each form of the corpus. The number of encapsulated frames of each part
is limited. ACAPELLA_SOAK adds snap lengths, encapsulated and damaged frames. `acapella verify DIR` compares everything,
with one run of tshark per file.
"""

import functools
import itertools
import random
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from acapella_testing.frames.traces import busy_port
from acapella_testing.native_programs import native_program
from acapella_testing.new_files import write_file
from acapella_testing.oracles.core_against_tshark import compare, ethernet_frames, pcap, rows
from acapella_testing.oracles.layer_agreement import FIELDS, differing_keys, errata, erratum_of, layers
from acapella_testing.processes import run
from acapella_testing.requirements import require
from acapella_testing.soak import SOAK
from acapella_testing.tshark_lines import tshark_lines

from acapella.digest.command import Options, digest

PARTS = ("ndpi", "tcpdump")
COUNTED_FRAMES = 200_000  # number of encapsulated frames in which the errata were counted
WRAPPED_FRAMES = COUNTED_FRAMES if SOAK else 25_000
COUNTED_WITH = "4.0.17"  # version of tshark with which the errata were counted
L2TP = 1701  # tshark remembers L2TP peers, so it can dissect a damaged frame as L2TP after an intact one


@pytest.mark.parametrize(
    "cut", [64, *(pytest.param(cut, marks=pytest.mark.soak) for cut in ((96, 128, 200, None) if SOAK else (128, None)))]
)
@pytest.mark.parametrize("part", PARTS)
def test_corpus_agrees_at_every_snap_length(part, cut, corpus, program, tmp_path):
    agreement = compare(program, sorted(filter(Path.is_file, (corpus / part).rglob("*"))), tmp_path, cut)
    assert agreement.frames > 5_000
    assert agreement.disagreements == 0, agreement.first
    assert agreement.errata == {}
    assert agreement.whole_wrong <= agreement.frames / 1_000


@pytest.fixture(scope="module")
def wrapped(corpus, program, tmp_path_factory) -> Callable[[str, int], tuple[Path, Path]]:
    """Return a function that encapsulates frames of a part of the corpus once; it returns the capture and the rows of
    tshark.
    """
    tool = corpus.parent / "tools" / "underlay.py"
    require(tool.is_file(), f"{tool} is missing")
    directory = tmp_path_factory.mktemp("wrapped")

    @functools.cache
    def wrap(part: str, frames: int) -> tuple[Path, Path]:
        capture, answers = (directory / f"{part}-{frames}.{kind}" for kind in ("pcap", "tsv"))
        subprocess.run([sys.executable, tool, "--frames", str(frames), "-o", capture, corpus / part], check=True)
        answers.write_text("".join(f"{line}\n" for line in tshark_lines(program, capture, *FIELDS)))
        return capture, answers

    return wrap


@pytest.mark.parametrize("part", PARTS)
def test_encapsulated_corpus_agrees_except_for_errata(part, wrapped, program, tmp_path):
    capture, answers = wrapped(part, WRAPPED_FRAMES)
    agreement = compare(program, [capture], tmp_path, answers=answers)
    assert agreement.frames == WRAPPED_FRAMES
    assert agreement.disagreements == 0, agreement.first
    assert agreement.errata_share < 0.08
    assert agreement.errata.keys() == {entry.name for entry in errata() if entry.encapsulated[part]}
    if (program.version, WRAPPED_FRAMES) == (COUNTED_WITH, COUNTED_FRAMES):
        assert agreement.errata == {entry.name: entry.encapsulated[part] for entry in errata()}
    if part == "ndpi":
        assert agreement.sure_share >= 0.98


@pytest.mark.soak
@pytest.mark.parametrize(
    (
        "frames",
        "max_sent",
    ),  # upper limit of the share of frames sent to tshark; it is smaller for longer captures
    [(COUNTED_FRAMES, 0.13), (1_000_000, 0.06)] if SOAK else [(WRAPPED_FRAMES, 0.33)],
)
def test_hybrid_engine_agrees_on_the_encapsulated_corpus_with_few_frames_sent(frames, max_sent, wrapped, tmp_path):
    capture, answers = wrapped("ndpi", frames)
    acap, flows = (tmp_path / name for name in ("acap.parquet", "flows.parquet"))
    metadata = digest([str(capture)], str(acap), str(flows), Options("hybrid"))
    with answers.open(encoding="utf-8") as lines:
        theirs = [row["frame.protocols"] for row in rows(lines, list(FIELDS))]
    pairs = zip(pq.read_table(acap, columns=["protocols"])["protocols"].to_pylist(), theirs, strict=True)
    compared = [ours == theirs for ours, theirs in pairs if "pwethnocw" not in theirs]
    share, agreement = metadata["tshark"]["frames_sent"] / frames, sum(compared) / len(compared)
    measured = f"{agreement:.3%} of {len(compared)} frames agree, {share:.2%} were sent"
    assert len(compared) > 0.92 * frames, measured
    assert agreement >= 0.99, measured  # required minimum; measured 99.5 % of 200,000 frames
    assert share <= max_sent, measured


def damaged(frame: bytes, chance: random.Random) -> bytes:
    """Return the frame with some bytes changed, removed or inserted, mostly in headers, and sometimes truncated."""
    out = bytearray(frame[:300])
    for _ in range(chance.choice((0, 1, 1, 1, 2, 2, 3, 5))):
        at = min(len(out) - 1, int(chance.expovariate(1 / 25)))
        size = chance.choice((1, 2, 4, 8))
        kind = chance.random()
        if kind < 0.8:
            out[at] = chance.randrange(256)
        elif kind < 0.9 and len(out) > at + size + 1:
            del out[at : at + size]
        else:
            out[at:at] = chance.randbytes(size)
    return bytes(out[: chance.randrange(1, len(out) + 1)] if chance.random() < 0.3 else out)


@pytest.mark.soak
def test_damaged_frames_agree(corpus, program, tmp_path):
    chance = random.Random(20)
    files = [file for part in PARTS for file in sorted((corpus / part).iterdir())]
    base = [each for file in files for each in itertools.islice(ethernet_frames(file), 8)]
    base = [(wire, frame) for wire, frame in base if frame and struct.pack("!H", L2TP) not in frame[:80]]
    assert len(base) > 3_000
    frames = []
    for _ in range(60_000 if SOAK else 10_000):
        wire, frame = chance.choice(base)
        bad = damaged(frame, chance)
        frames.append((max(wire, len(bad)) if chance.random() < 0.7 else len(bad), bad))
    agreement = compare(program, [write_file(tmp_path / "damaged.pcap", pcap(frames))], tmp_path)
    assert agreement.disagreements == 0, agreement.first
    assert set(agreement.errata) <= {entry.name for entry in errata()}
    assert agreement.sure_share > 0.7


@pytest.mark.parametrize("entry", errata(), ids=lambda entry: entry.name)
def test_errata_have_a_frame_that_shows_them(entry, program, tmp_path):
    file = write_file(tmp_path / "erratum.pcap", pcap([(len(entry.frame), entry.frame)]))
    assert compare(program, [file], tmp_path).errata == {entry.name: 1}


@pytest.mark.soak
@pytest.mark.parametrize("entry", errata(), ids=lambda entry: entry.name)
def test_core_dissects_the_inner_frame_of_every_erratum_correctly(entry, program, tmp_path):
    """tshark dissects the inner frame alone correctly. The core finds the same layers after the underlay."""
    address = entry.frame.index(bytes.fromhex("02000000000208004500")) - 6  # start of the inner frame
    underlay, addresses = entry.frame[:address], entry.frame[address : address + 12]
    inner = [addresses + frame[12:] for _, frame in busy_port()]
    wrapped, bare = tmp_path / "wrapped.pcap", tmp_path / "bare.pcap"
    for file, before in ((wrapped, underlay), (bare, b"")):
        file.write_bytes(pcap([(len(before + frame), before + frame) for frame in inner]))
    names, *lines = run(native_program("acapella-dump-frames"), wrapped, check=True).stdout.splitlines()
    theirs, misread = (rows(iter(tshark_lines(program, file, *FIELDS)), list(FIELDS)) for file in (bare, wrapped))
    shown = 0
    for mine, alone, within in zip(rows(iter(lines), names.split("\t")), theirs, misread, strict=True):
        shown += erratum_of(mine["protocols"], within["frame.protocols"], within["eth.dst"]) == entry.name
        head, _, inner = mine["protocols"].partition(f":{entry.ours}:")
        assert head.endswith(entry.after)
        tags = mine["vlan"].split(",")[head.split(":").count("vlan") :]
        stripped = mine | {"protocols": inner, "vlan": ",".join(tags), "mpls": mine["mpls"].partition(",")[2]}
        assert layers(inner) == layers(alone["frame.protocols"])
        assert differing_keys(stripped, alone) == []
    assert shown > len(inner) / 2


def test_erratum_excuses_only_its_first_difference():
    ours = "eth:ethertype:mpls:pwethheuristic:pwethcw:eth:ethertype:ip:tcp"
    misread = "eth:ethertype:mpls:pwethheuristic:pwethnocw:eth:ethertype:data"
    outer, zeros = "00:56:2b:0a:0b:0c", "00:00:00:00:00:1b"
    assert erratum_of(ours, misread, f"{outer},{zeros}")
    assert erratum_of(ours, misread, f"{zeros},{outer}") is None
    assert erratum_of(ours, "eth:ethertype:mpls:pwethheuristic:pwethcw:eth:ethertype:data", f"{outer},{zeros}") is None
    assert erratum_of(ours, "eth:ethertype:mpls:ip:tcp", outer) is None


def test_layers_are_the_listed_tokens_at_any_position():
    assert layers("eth:ethertype:ip:udp:capwap:wlan:llc:ip:tcp:http") == (
        *("eth", "ethertype", "ip", "udp"),
        *("llc", "ip", "tcp"),
    )


def test_ports_with_a_dissector_match_tshark(program):
    """Compares the core's list of UDP ports up to the largest tunnel port with that of the installed tshark."""
    table = (line.split("\t") for line in run(program.path, "-G", "decodes", check=True).stdout.splitlines())
    theirs = {int(port) for name, port, *_ in table if name == "udp.port"}
    source = Path(__file__).parents[2] / "native" / "src" / "dissect" / "udp_ports.cpp"
    numbers = source.read_text(encoding="utf-8").split("kKnown[] = {")[1].split("}")[0]
    ours = {int(number) for number in numbers.replace("\n", " ").split(",") if number.strip()}
    assert ours == {port for port in theirs if 0 < port < 9900}
