"""Tokens of tshark that describe a payload (text, media, images) do not count as headers."""

import struct
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from acapella_testing.frames import tunnel_frames
from acapella_testing.frames.tunnel_frames import Packet, ethernet
from acapella_testing.runs.stages import analyzed_by_tshark, rows
from acapella_testing.tshark_lines import tshark_lines

from acapella.common import tshark

PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000049454e44ae426082")
CONTENTS = {"text/plain": b"line one\nline two\n", "application/pdf": bytes(range(40)), "image/png": PNG}
PAYLOAD = {"data", "data-text-lines", "media", "png", "json", "xml"}


def response(kind: str, content: bytes, port: int) -> bytes:
    """Return a frame with an HTTP response in one segment."""
    text = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content
    segment = struct.pack(">HHIIBBHHH", 80, port, 1, 1, 0x50, 0x18, 100, 0, 0) + text
    return ethernet(tunnel_frames.ipv4(Packet(segment), 6, tunnel_frames.INNER)).raw


@pytest.fixture(scope="module")
def campaign(tmp_path_factory) -> Path:
    """Return a campaign of one sample: the n-th content type n times, and UDP with an unknown payload."""
    kinds = list(CONTENTS.items())
    frames = [response(*kinds[n], 5000 + 10 * n + k) for n in range(len(kinds)) for k in range(n + 1)]
    frames += [ethernet(tunnel_frames.over_udp(Packet(b"\1\2\3\4" * 5), 40_001)).raw] * 4
    return analyzed_by_tshark(tmp_path_factory.mktemp("payload"), frames)


def tokens_of(campaign: Path) -> list[list[str]]:
    """Return tshark's header tokens of each frame."""
    return [line.split(":") for line in tshark_lines(tshark.find(), campaign / "raw" / "s.pcap")]


def test_payload_kinds_are_not_headers_and_data_is_one_line(campaign):
    tokens = tokens_of(campaign)
    assert {"data-text-lines", "media", "png", "data"} <= {token for frame in tokens for token in frame}
    found = {row["header"]: row for row in rows(campaign, "header_occurrence") if row["site"] == "all"}
    assert set(found) == {"Ethernet", "IPv4", "TCP", "UDP", "HTTP", "Data"}
    with_payload = sum(any(token in PAYLOAD for token in frame) for frame in tokens)
    assert (found["Data"]["frames"], found["Data"]["occurrences"]) == (with_payload, with_payload)
    assert found["HTTP"]["frames"] == sum("http" in frame for frame in tokens)


def test_payload_counts_neither_in_the_depth_of_a_stack_nor_as_a_distinct_header(campaign):
    deepest = next(row for row in rows(campaign, "header_depth") if row["site"] == "all")
    headers = [[token for token in frame if token not in PAYLOAD | {"ethertype"}] for frame in tokens_of(campaign)]
    assert deepest["deepest_stack"] == max(map(len, headers)) == 4  # Ethernet, IPv4, TCP, HTTP
    assert deepest["distinct_headers"] == len({token for frame in headers for token in frame}) == 5


def icmp(kind: int, content: bytes, number: int) -> bytes:
    """Return a frame with an ICMP message."""
    message = bytes([kind, 3 if kind == 3 else 0]) + bytes(6) + content
    return ethernet(tunnel_frames.ipv4(Packet(message), 1, ("10.0.0.1", f"10.0.1.{number}"))).raw


def test_application_is_neither_a_format_of_content_nor_a_packet_quoted_by_icmp(tmp_path):
    """tshark has a token for text in HTTP, which comes first in the alphabet, and for the data of ICMP."""
    query = bytes.fromhex("000101000001000000000000076578616d706c6503636f6d0000010001")
    quoted = tunnel_frames.ipv4(tunnel_frames.udp(Packet(query), 53), 17, tunnel_frames.INNER).raw
    frames = [response("text/plain", b"line one\n", 5000), response("image/png", PNG, 5001)]
    frames += [icmp(8, b"abcdefgh", 1), icmp(3, quoted, 2), icmp(3, b"", 3)]
    frames += [ethernet(tunnel_frames.over_udp(Packet(b"\1\2\3\4" * 5), 40_001)).raw]
    campaign = analyzed_by_tshark(tmp_path, frames)
    read = pq.read_table(campaign / "flows" / "s.parquet").to_pylist()
    assert sorted(str(flow["app"]) for flow in read) == ["None", "data", "data", "data-text-lines", "dns", "http"]
    flows = [row for row in rows(campaign, "applications") if row["site"] == "all"]
    assert [(row["app"], row["app_by"], row["flows"]) for row in flows] == [
        ("data", "tshark", 1), ("http", "tshark", 2), ("icmp", "tshark", 3)
    ]  # fmt: skip
    for table in ("top_flows", "stitched_flows"):
        found = [row for row in rows(campaign, table) if row["site"] != "all"]
        assert sorted(row["app"] for row in found) == ["data", "http", "http", "icmp", "icmp", "icmp"], table
        assert [row["app_by"] for row in found].count(None) == 1, table  # ICMP without data
