"""Headers that tshark guessed from the payload of unknown flows are counted, and marked as heuristic in figures."""

import csv
import random
from pathlib import Path

import pytest
import tunnel_frames
from made_tables import write_tables
from stages import analysed_by_tshark, rows
from svg_text import words
from tunnel_frames import Packet, ethernet

from acapella import tshark
from acapella.campaign import Campaign
from acapella.figures import compose
from acapella.figures.save import svg_of
from acapella.figures.source import Source

# What tshark's heuristic for STUN looks at: a binding request of 8 bytes, the magic cookie (RFC 8489, section 5), an
# identifier, and one attribute.
LIKE_STUN = bytes.fromhex("000100082112a442") + bytes(range(12)) + bytes.fromhex("8022000461626364")


def datagram(payload: bytes, port: int) -> bytes:
    """A frame with a UDP datagram."""
    return ethernet(tunnel_frames.over_udp(Packet(payload), port)).octets


@pytest.fixture(scope="module")
def campaign(tmp_path_factory) -> Path:
    """A flow of 60 unknown datagrams and two that look like STUN, and a flow of DNS queries."""
    draw = random.Random(1)
    frames = [datagram(b"\1" + draw.randbytes(40), 40_001) for _ in range(60)]
    frames += [datagram(LIKE_STUN, 40_001)] * 2
    query = bytes.fromhex("0001010000010000000000000361626300000100 01".replace(" ", ""))
    frames += [datagram(query, 53)] * 3
    return analysed_by_tshark(tmp_path_factory.mktemp("guessed"), frames)


def test_headers_of_unknown_flows_are_counted_as_guessed(campaign):
    with tshark.find().start(campaign / "raw" / "s.pcap", ("frame.protocols",)) as run:
        tokens = [line.split(":") for line in run.stdout.read().decode().splitlines()]
    guessed = sum("stun" in frame for frame in tokens)
    assert guessed == 2, "tshark takes the two datagrams for STUN"
    for site in ("WEST", "all"):
        found = {row["header"]: row for row in rows(campaign, "header_occurrence") if row["site"] == site}
        assert {name: row["guessed_frames"] for name, row in found.items() if row["guessed_frames"]} == {
            "STUN": guessed
        }
        assert found["STUN"]["frames"] == guessed
        assert found["DNS"]["frames"] == 3


def with_guesses(tmp_path, header: str, *, whole: bool) -> Source:
    """A campaign in which all frames of a header, or all but one, are guessed."""
    folder = write_tables(tmp_path / "made", sites=2)
    path = folder / "tables" / "header_occurrence.csv"
    with path.open(encoding="utf-8", newline="") as stream:
        table = list(csv.DictReader(stream))
    for row in table:
        if row["header"] == header:
            row["guessed_frames"] = int(row["frames"]) - (not whole)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    return Source(Campaign(folder))


def test_figures_mark_headers_that_are_always_guessed(tmp_path):
    source = with_guesses(tmp_path, "GTP", whole=True)
    assert "GTP (heuristic)" in words(svg_of(compose.drawn("header_occurrence", source)))
    frames = next(r["frames"] for r in source.rows("header_occurrence") if (r["site"], r["header"]) == ("all", "GTP"))
    text = words(svg_of(compose.drawn("header_depth", source)))
    assert f"Heuristic, and counted with the others: GTP ({frames:,} frames)" in text.replace("  ", " ")


def test_headers_that_some_flow_confirms_are_not_marked(tmp_path):
    source = with_guesses(tmp_path, "GTP", whole=False)
    for name in ("header_occurrence", "header_depth"):
        assert "heuristic" not in words(svg_of(compose.drawn(name, source))).lower()
