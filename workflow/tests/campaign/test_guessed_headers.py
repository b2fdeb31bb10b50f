"""Headers that tshark guesses from the payload of unknown flows are counted and marked as heuristic in figures."""

import random
from pathlib import Path

import pytest
from acapella_testing.csv_rows import read_rows
from acapella_testing.frames import tunnel_frames
from acapella_testing.frames.tunnel_frames import Packet, ethernet
from acapella_testing.generated.generated_tables import change_table, write_tables
from acapella_testing.processes import run
from acapella_testing.runs.stages import analyzed_by_tshark, rows
from acapella_testing.source_tree import ROOT
from acapella_testing.svg_text import with_spaces, words
from acapella_testing.tshark_lines import tshark_lines

from acapella.campaign.layout import Campaign
from acapella.common import tshark
from acapella.common.wording import percent
from acapella.figures import compose
from acapella.figures.save import svg_of
from acapella.figures.source import Source

QUERY = bytes.fromhex("000101000001000000000000036162630000010001")  # DNS (RFC 1035): a query for the address of abc
TRANSPORTS = ("tcp", "udp", "sctp", "dccp")
GUESSED = 2 + 5 + 1  # STUN frames of flows on other ports (RFC 8489, section 18.6: port 3478)
# Matches tshark's heuristic for STUN: a binding request of 8 bytes, the magic cookie (RFC 8489, section 5), a
# transaction identifier, and one attribute.
LIKE_STUN = bytes.fromhex("000100082112a442") + bytes(range(12)) + bytes.fromhex("8022000461626364")


def datagram(payload: bytes, port: int) -> bytes:
    """Return a frame with a UDP datagram."""
    return ethernet(tunnel_frames.over_udp(Packet(payload), port)).raw


@pytest.fixture(scope="module")
def campaign(tmp_path_factory) -> Path:
    """Return a campaign with datagrams that look like STUN, and with DNS queries.

    On ports without a protocol: two STUN datagrams after 60 unknown ones, five after 60 unknown ones, and a single one.
    On the port of STUN: four.
    """
    draw, frames = random.Random(1), []
    for port, count in ((40_001, 2), (40_003, 5)):
        frames += [datagram(b"\1" + draw.randbytes(40), port) for _ in range(60)] + [datagram(LIKE_STUN, port)] * count
    frames += [datagram(LIKE_STUN, 40_002)] + [datagram(LIKE_STUN, 3478)] * 4 + [datagram(QUERY, 53)] * 3
    return analyzed_by_tshark(tmp_path_factory.mktemp("guessed"), frames)


@pytest.mark.soak
@pytest.mark.parametrize("site", ["WEST", "all"])
def test_headers_of_unknown_flows_are_counted_as_guessed(campaign, site):
    guessed = sum("stun" in line.split(":") for line in tshark_lines(tshark.find(), campaign / "raw" / "s.pcap"))
    assert guessed == GUESSED + 4, "tshark identifies the datagrams as STUN on any port"
    found = {row["header"]: row for row in rows(campaign, "header_occurrence") if row["site"] == site}
    assert {name: row["guessed_frames"] for name, row in found.items() if row["guessed_frames"]} == {"STUN": GUESSED}
    assert found["STUN"]["frames"] == guessed
    assert found["DNS"]["frames"] == 3


@pytest.mark.soak
def test_inner_headers_of_a_tunnel_and_quotes_of_errors_are_not_guessed(tmp_path):
    """A ping over VXLAN: no port or heuristic identifies ICMP. An ICMP error that quotes DNS: its flow has no ports."""
    ping = tunnel_frames.ipv4(Packet(bytes.fromhex("0800f7ff00000000") + bytes(40)), 1, tunnel_frames.INNER)
    quoted = tunnel_frames.over_udp(Packet(QUERY), 53)
    error = tunnel_frames.ipv4(quoted.with_header(bytes.fromhex("0303000000000000")), 1, tunnel_frames.OUTER)
    frames = [ethernet(tunnel_frames.vxlan(7, ping)).raw, ethernet(error).raw]
    found = {row["header"]: row for row in rows(analyzed_by_tshark(tmp_path, frames * 3), "header_occurrence")}
    assert {"VXLAN", "ICMP", "DNS"} <= found.keys()
    assert not any(row["guessed_frames"] for row in found.values())


def test_heuristics_and_ports_match_tshark():
    """Compares with ``tshark -G`` of version 4.0. The table may list IANA ports that tshark does not use."""
    if not (version := tshark.find().version).startswith("4.0."):
        pytest.skip(f"the table is that of tshark 4.0, not {version}")
    heuristics, decodes = (
        [line.split("\t") for line in run(tshark.find().path, "-G", name, check=True).stdout.splitlines()]
        for name in ("heuristic-decodes", "decodes")
    )
    enabled = {(row[1], row[0]) for row in heuristics if row[0] in TRANSPORTS and row[2] == "T"}
    listed = [row.values() for row in read_rows(ROOT / "schemas" / "heuristics.tsv")]
    ports = {(token, transport): set(numbers.split()) for token, transport, numbers in listed}
    assert ports.keys() == enabled
    for table, port, token, *_ in (row for row in decodes if len(row) > 2):
        transport = table.removesuffix(".port")
        if transport != table and port != "0" and (token, transport) in enabled:
            assert port in ports[token, transport], (token, transport)


def with_guesses(tmp_path, header: str, *, whole: bool) -> tuple[Source, int]:
    """Return a campaign in which all frames of a header, or all but one, are guessed, and their number."""
    directory = write_tables(tmp_path / "made", sites=2)

    def guess(_: int, row: dict) -> None:
        row["guessed_frames"] = row["frames"] - (not whole) if row["header"] == header else 0

    change_table(directory, "header_occurrence", guess)
    source = Source(Campaign(directory))
    found = {row["header"]: row["frames"] for row in source.rows("header_occurrence") if row["site"] == "all"}
    return source, found[header]


def drawn(name: str, source: Source) -> str:
    """Return the text of a figure."""
    return words(svg_of(compose.compose_figure(name, source))).replace("  ", " ")


def test_figures_mark_headers_that_are_always_guessed(tmp_path):
    source, frames = with_guesses(tmp_path, "HTTP", whole=True)
    assert "HTTP (heuristic)" in drawn("header_occurrence", source)
    assert f"Included heuristic headers: HTTP ({frames:,} frames)" in drawn("header_depth", source)


def test_headers_that_some_flow_confirms_are_marked_by_share(tmp_path):
    source, frames = with_guesses(tmp_path, "HTTP", whole=False)
    assert f"HTTP (heuristic in {with_spaces(percent((frames - 1) / frames))})" in drawn("header_occurrence", source)
    text = drawn("header_depth", source)
    assert "recognized by payload alone" in text
    assert f"Included heuristic headers: HTTP ({frames - 1:,} of {frames:,} frames)" in text
