"""Tests frame sizes by header stack: segments of each kind, truncated headers, and ICMP errors, from captures."""

import pytest
from acapella_testing.frames import traces
from acapella_testing.runs.stages import analyzed_frames, rows
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.packet import Raw


def segment(flags: str, payload: bytes = b"", **more):
    """Return an IPv4 packet with a TCP segment."""
    return IP(src="10.0.0.1", dst="10.0.0.2", ttl=9, **more) / TCP(sport=1, dport=2, flags=flags) / Raw(payload)


def found_of(directory, packets, snaplen=200) -> dict:
    """Return the campaign's rows by header stack and bin as (frames, TCP, without payload, only ACK, truncated TCP
    header).
    """
    frames = [traces.underlay(kind, packet) for kind, packet in packets]
    names = ("frames", "tcp_frames", "no_payload_frames", "ack_frames", "cut_tcp_frames")
    table = rows(analyzed_frames(directory, frames, snaplen=snaplen), "header_stack_sizes")
    assert [row for row in table if row["site"] == "all"] == [
        {**row, "site": "all"} for row in table if row["site"] == "WEST"
    ]
    return {(row["stack"], row["bin"]): tuple(row[name] for name in names) for row in table if row["site"] == "all"}


@pytest.mark.soak
def test_only_segments_with_nothing_but_ack_and_no_payload_are_acknowledgments(tmp_path):
    packets = [("vlan", segment(flags)) for flags in ("A", "S", "SA", "FA", "RA", "EA", "A")]
    packets += [("vlan", segment("A", b"x" * size)) for size in (1, 60, 1000)]
    assert found_of(tmp_path / "made", packets) == {
        ("Ethernet/VLAN/IPv4/TCP", "<64"): (8, 8, 7, 2, 0),
        ("Ethernet/VLAN/IPv4/TCP", "65-127"): (1, 1, 0, 0, 0),
        ("Ethernet/VLAN/IPv4/TCP", "1024-1518"): (1, 1, 0, 0, 0),
    }


@pytest.mark.soak
def test_padding_is_not_payload(tmp_path):
    assert found_of(tmp_path / "made", [("vlan", segment("A", b"\0" * 30, len=40))]) == {
        ("Ethernet/VLAN/IPv4/TCP", "65-127"): (1, 1, 1, 1, 0)
    }


@pytest.mark.soak
@pytest.mark.parametrize("kept", [0, 13, 19])
def test_segment_with_a_truncated_header_has_no_known_payload(kept, tmp_path):
    found = found_of(tmp_path / "made", [("mpls", segment("A")), ("vlan", segment("A"))], snaplen=22 + 20 + kept)
    complete = kept + 4 >= 20
    assert sum(cells[1] for cells in found.values()) == int(complete)
    assert sum(cells[4] for cells in found.values()) == 2 - complete


@pytest.mark.soak
def test_segment_quoted_in_an_icmp_error_does_not_count(tmp_path):
    error = IP(src="10.0.0.9", dst="10.0.0.1", ttl=9) / ICMP(type=11) / segment("A")
    datagram = IP(src="10.0.0.1", dst="10.0.0.2", ttl=9) / UDP(sport=1, dport=2) / Raw(b"u" * 20)
    found = found_of(tmp_path / "made", [("plain", error), ("plain", datagram)])
    assert {cells[1:] for cells in found.values()} == {(0, 0, 0, 0)}
    assert sorted(stack.split("/")[-1] for stack, _ in found) == ["TCP", "UDP"]
