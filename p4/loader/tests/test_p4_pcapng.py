"""Captures in pcapng as input: interfaces and sections that differ, truncated and damaged files."""

import gzip
import struct

import pytest
from acapella_testing.frames import pcapng_files as pcapng
from acapella_testing.runs.p4_loader import FORWARD, SECOND, ethernet, frame, good, run


def several_interfaces(order="<") -> tuple[bytes, list]:
    """Return a pcapng whose interfaces differ in snap length and time resolution, and the frames in it."""
    start = 1_700_000_000  # seconds
    resolutions = [
        (262144, 9, 10**9, 0),
        (96, 6, 10**6, 0),
        (0, None, 10**6, 0),  # without the option: microseconds
        (1514, 3, 10**3, 0),
        (128, 0x80 | 20, 1 << 20, 0),
        (64, 12, 10**12, start - 5),
    ]
    content, frames = pcapng.section(order=order), []
    for number, (snaplen, resolution, _, offset) in enumerate(resolutions):
        options = b"" if resolution is None else pcapng.option(9, bytes([resolution]), order)
        options += pcapng.option(14, struct.pack(order + "q", offset), order) if offset else b""
        content += pcapng.interface(1, snaplen, options + pcapng.option(0, b"", order), order)
        if number == 2:
            content += pcapng.simple_block(bytes(20), order=order)  # a simple packet has no time
            frames.append(frame(0, bytes(20)))
    for i in range(60):
        number = i % len(resolutions)
        snaplen, _, per_second, offset = resolutions[number]
        units = (start - offset) * per_second + (i * per_second) // 64
        data = ethernet(i, size=60 + 7 * i)
        cut = data[:snaplen] if snaplen else data
        content += pcapng.packet_block(number, units, cut, len(data), order=order)
        frames.append(frame(offset * SECOND + units * SECOND // per_second, cut, len(data)))
    return content, frames


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_interfaces_can_have_different_snap_lengths_and_time_resolutions(tmp_path, order):
    content, frames = several_interfaces(order)
    (tmp_path / "in.pcapng").write_bytes(content)
    from_pcapng = good(tmp_path, FORWARD, tmp_path / "in.pcapng")
    from_pcap = good(tmp_path, FORWARD, frames)
    assert from_pcapng.frames == from_pcap.frames == frames
    assert from_pcapng.registers == from_pcap.registers


def test_pcapng_sections_have_separate_interfaces_and_byte_orders(tmp_path):
    (first, frames), (second, more) = several_interfaces("<"), several_interfaces(">")
    with gzip.open(tmp_path / "in.pcapng.gz", "wb") as out:
        out.write(first + pcapng.block(0xBAD, bytes(40)) + second)
    assert good(tmp_path, FORWARD, tmp_path / "in.pcapng.gz").frames == frames + more


@pytest.mark.soak
def test_truncated_pcapng_keeps_whole_frames(tmp_path):
    content, frames = several_interfaces()
    for kept_bytes in range(len(content) - 700, len(content), 101):
        (tmp_path / "in.pcapng").write_bytes(content[:kept_bytes])
        done = good(tmp_path, FORWARD, tmp_path / "in.pcapng")
        assert done.frames == frames[: len(done.frames)] and len(done.frames) >= len(frames) - 3
        assert done.stats["ports"][0]["end"] == "truncated"


def damaged_pcapngs() -> dict[str, bytes]:
    """Return pcapngs with one fault each, keyed by a part of the expected message."""
    head, data = pcapng.SECTION + pcapng.interface(), bytes(60)
    wrong_trailer = bytearray(pcapng.packet_block(0, 1, data))
    wrong_trailer[-4] ^= 8
    return {
        "no section header": b"\n" + bytes(40),
        "without byte-order magic": pcapng.block(0x0A0D0D0A, bytes(16)),
        "pcapng version 2.0": pcapng.block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 2, 0, -1)),
        "interface without description": head + pcapng.packet_block(1, 1, data),
        "simple packet that is too short, or without interface": pcapng.SECTION + pcapng.block(3, struct.pack("<I", 0)),
        "packet block that is too short": head + pcapng.block(6, bytes(16)),
        "too short for its frame": head + pcapng.block(6, struct.pack("<IIIII", 0, 0, 1, 64, 64) + data),
        "a frame of 262145 bytes": head + pcapng.block(6, struct.pack("<IIIII", 0, 0, 1, 262145, 262145) + data),
        "two lengths of a block differ": head + bytes(wrong_trailer),
        "length of a block is out of range": head + struct.pack("<II", 6, 8) + bytes(40),
        "interface option is truncated": pcapng.SECTION + pcapng.block(1, bytes(8) + struct.pack("<HH", 9, 5)),
        "interface description that is too short": pcapng.SECTION + pcapng.block(1, bytes(4)),
        "link type 101": head + pcapng.interface(link_type=101) + pcapng.packet_block(1, 1, data),
    }


def test_pcapng_with_too_many_interfaces_is_rejected(tmp_path):
    """The limit applies to all sections together, as for the digest (kMaxInterfaces)."""
    half = pcapng.SECTION + pcapng.block(1, struct.pack("<HHI", 1, 0, 0)) * ((1 << 20) // 2)
    with gzip.open(tmp_path / "in.pcapng.gz", "wb", compresslevel=1) as out:
        out.write(half * 2 + pcapng.packet_block(0, 1, bytes(60)))
    assert good(tmp_path, FORWARD, tmp_path / "in.pcapng.gz").frames == [frame(1000, bytes(60))]
    with gzip.open(tmp_path / "more.pcapng.gz", "wb", compresslevel=1) as out:
        out.write(half * 2 + pcapng.interface() + pcapng.packet_block(0, 1, bytes(60)))
    done = run(tmp_path, FORWARD, tmp_path / "more.pcapng.gz")
    assert done.code == 2, done.error
    assert "more.pcapng.gz: more than 1048576 interfaces are described" in done.error


@pytest.mark.parametrize(("message", "content"), damaged_pcapngs().items(), ids=list(damaged_pcapngs()))
def test_damaged_pcapng_is_rejected_in_one_line(tmp_path, message, content):
    (tmp_path / "in.pcapng").write_bytes(content)
    done = run(tmp_path, FORWARD, tmp_path / "in.pcapng")
    assert done.code == 2, done.error
    assert done.error.count("\n") == 1, done.error
    assert "in.pcapng: " in done.error
    assert message in done.error
