"""Digests with the included list of vendors, compared with those that use tshark's lists, on the frames of the corpus.

They can differ only for frames in an Ethernet pseudowire, because nothing else depends on vendors.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from acapella_testing.oracles.core_against_tshark import ethernet_frames, pcap, vendor_prefixes

from acapella.common import vendors
from acapella.digest.command import Options, digest

OUTER = bytes.fromhex("00562b0a0b0c00562b010203884700014140")  # label 20
CONTROL_WORDS = {"without": b"", "with": bytes.fromhex("00000001")}  # RFC 4448, sequence number 1
DIRECTORIES = ("ndpi", "tcpdump")
SNAPLEN = 200


@pytest.fixture(scope="module")
def lists(program_with_vendors) -> dict[str, vendors.Vendors]:
    """Return the lists of tshark, and the included one."""
    return {"tshark": vendors.find(program_with_vendors), "included": vendors.included()}


@pytest.fixture(scope="module")
def frames(corpus) -> list[tuple[int, bytes]]:
    files = [file for part in DIRECTORIES for file in sorted((corpus / part).iterdir()) if file.is_file()]
    return [(wire, frame[:SNAPLEN]) for file in files for wire, frame in ethernet_frames(file)]


@pytest.fixture
def tables(lists, tmp_path, monkeypatch):
    """Return a function that returns two frame tables of frames: with tshark's lists, and with the included one."""
    capture, acap = tmp_path / "a.pcap", tmp_path / "a.parquet"

    def created(frames: list[tuple[int, bytes]]) -> Iterator[pa.Table]:
        capture.write_bytes(pcap(frames))
        for name in ("tshark", "included"):
            monkeypatch.setattr(vendors, "find", lambda program=None, name=name: lists[name])
            metadata = digest([str(capture)], str(acap), str(tmp_path / "flows.parquet"), Options("native"))
            assert metadata["vendors"] == lists[name].metadata()
            yield pq.read_table(acap)

    return created


def test_frames_of_the_corpus_do_not_differ(frames, tables):
    with_tshark, included = tables(frames)
    assert with_tshark == included
    assert len(included) == len(frames) > 50_000


def both_known(prefixes: set[bytes], payload: bytes) -> bool:
    """Return whether a list contains both prefixes that decide: those of the addresses if there is no control word."""
    return payload[:3] in prefixes and payload[6:9] in prefixes


@pytest.mark.parametrize("word", CONTROL_WORDS)
def test_only_pseudowires_with_an_unlisted_vendor_differ(word, frames, tables, program):
    """Each frame of the corpus in a pseudowire, after one label."""
    payloads = [(CONTROL_WORDS[word] + frame)[: SNAPLEN - len(OUTER)] for _, frame in frames]
    lengths = [wire + len(CONTROL_WORDS[word]) + len(OUTER) for wire, _ in frames]
    with_tshark, included = tables([(wire, OUTER + payload) for wire, payload in zip(lengths, payloads, strict=True)])
    unequal = [pc.not_equal(with_tshark[name], included[name]) for name in ("stack", "l4_by")]
    differing = {number for number, differs in enumerate(pc.or_(*unequal).to_pylist()) if differs}
    ours = {bytes.fromhex(prefix.replace(":", "")) for prefix in vendors.prefixes(vendors.INCLUDED.read_text())}
    theirs = vendor_prefixes(program)
    decided = [(both_known(ours, payload), both_known(theirs, payload)) for payload in payloads]
    assert differing <= {number for number, (here, there) in enumerate(decided) if here != there}
    missing = {part for number in differing for part in (payloads[number][:3], payloads[number][6:9])} & (theirs - ours)
    assert bool(missing) == bool(differing) == (word == "without")
