"""Compares the detection of the control word of Ethernet pseudowires with tshark's, except for the errata.

The frames combine all addresses, control words, ethertypes and label stacks, and are truncated at every length. The
corpus is also wrapped in labels without a control word and with a sequence number, which underlay.py does not generate.
"""

import itertools
import struct
from pathlib import Path

import pytest
from acapella_testing.new_files import write_file
from acapella_testing.oracles import core_against_tshark
from acapella_testing.oracles.core_against_tshark import compare, ethernet_frames, pcap
from acapella_testing.oracles.layer_agreement import errata
from acapella_testing.soak import SOAK

OUTER = bytes.fromhex("00562b0a0b0c00562b0102038847")
IPV4 = bytes.fromhex("4500001c00010000401166cf0a0000010a0000029c409c4100080000")
IPV6 = bytes.fromhex("60000000000811ff") + bytes(32) + IPV4[20:]
# Prefixes: of a vendor known to tshark, of an unknown vendor, locally administered, multicast, of a vendor with
# multicast addresses, of an authority's block, zeros, well-known addresses, and with first nibbles that mean IPv4, IPv6
# and an associated channel.
DESTINATIONS = (
    *("001b21aabbcc", "00ff01020304", "020000000001", "01005e000001", "01003c010101", "0050c2123456", "000000000001"),
    *("00000c070809", "0180c2000000", "0c4101020304", "401b21000000", "601b21000000", "101b21000000", "501b21000000"),
)
SOURCES = (
    *("001b21ddeeff", "00ff0a0b0c0d", "020000000002", "011b21000001", "000000000002", "0050c2654321", "021b21aabbcc"),
    *("08004500001c", "aabb08004500"),  # their last bytes look like a header if read four bytes too early
)
WORDS = ("", "00000000", "00000001", "0000ffff", "00010000", "0fffffff", "001b2101", "0000001b")
BODIES = (
    b"\x08\0" + IPV4,
    b"\x86\xdd" + IPV6,
    b"\x08\6" + bytes.fromhex("0001080006040001") + bytes(20),
    b"\x88\xb5" + bytes(20),
    b"\0\0" + IPV4,
    b"\0\x26\x42\x42\3" + bytes(35),
    b"\5\0\xaa\xaa\3\0\0\0\x08\0" + IPV4,  # a length that exceeds the frame
    b"\5\xdd" + IPV4,  # neither length nor ethertype
    b"\x81\0\0\5\x08\0" + IPV4,
)
EVERY_NTH = 3 if SOAK else 16  # only every n-th frame of the corpus is used
SNAPLEN = 200


def labels(depth: int) -> bytes:
    entries = ((16 + place) << 12 | (place == depth - 1) << 8 | 64 for place in range(depth))
    return b"".join(struct.pack("!I", entry) for entry in entries)


def frame(word: str, destination: str, source: str, body: bytes, depth: int = 1) -> bytes:
    return OUTER + labels(depth) + bytes.fromhex(word + destination + source) + body


def compared(program, frames: list[tuple[int, bytes]], directory: Path, answers: Path | None = None):
    return compare(program, [write_file(directory / "in.pcap", pcap(frames))], directory, answers=answers)


@pytest.mark.soak
def test_combinations_of_headers_agree_with_tshark(program_with_vendors, tmp_path):
    created = itertools.starmap(frame, itertools.product(WORDS, DESTINATIONS, SOURCES, BODIES, (1, 2, 3)))
    agreement = compared(program_with_vendors, [(len(each), each) for each in created], tmp_path)
    assert agreement.disagreements == 0, agreement.first
    assert set(agreement.errata) <= {entry.name for entry in errata()}
    assert agreement.sure_share > 0.85  # the rest: associated channels, and ethertypes that tshark decides


@pytest.mark.soak
def test_truncated_frames_agree_with_tshark(program_with_vendors, tmp_path):
    frames = []
    for destination, source, word in itertools.product(DESTINATIONS[:8], SOURCES[:5], WORDS):
        complete = frame(word, destination, source, BODIES[0])
        for cut in range(len(OUTER) + 4, len(complete)):
            frames += [(len(complete), complete[:cut]), (cut, complete[:cut]), (cut + 3, complete[:cut])]
    agreement = compared(program_with_vendors, frames, tmp_path)
    assert agreement.disagreements == 0, agreement.first
    assert agreement.sure_share > 0.8


@pytest.mark.parametrize("form", list(itertools.product(("ndpi", "tcpdump"), (False, True))), ids=str)
def test_corpus_after_labels_agrees(form, corpus, program_with_vendors, tmp_path, monkeypatch):
    part, sequenced = form
    bare = [pair for file in sorted((corpus / part).iterdir()) if file.is_file() for pair in ethernet_frames(file)]
    frames = []
    for number, (wire, inner) in list(enumerate(bare))[::EVERY_NTH]:
        word = struct.pack("!I", number % 65_535 + 1) if sequenced else b""
        head = OUTER + labels(number // EVERY_NTH % 3 + 1) + word
        frames.append((wire + len(head), (head + inner)[:SNAPLEN]))
    answers = tmp_path / "answers.tsv"
    agreement = compared(program_with_vendors, frames, tmp_path, answers)
    assert agreement.disagreements == 0, agreement.first
    assert agreement.errata == {}
    monkeypatch.setattr(core_against_tshark, "vendor_options", lambda _: [])
    unaided = compared(program_with_vendors, frames, tmp_path, answers)
    assert unaided.disagreements == 0, unaided.first
    assert agreement.sure_share > unaided.sure_share + 0.2
