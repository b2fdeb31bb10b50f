"""Frames of in-band control: lines survive the way through frames, and anything else is refused."""

import random

import pytest

from acapella_capture.replay import channel, frames
from acapella_core.control_lines import Refused

HEAD = frames.Frame(b"\2\0\0\0\0\7", b"\2\0\0\0\0\1", 1 << 63, frames.RESPONSE)


@pytest.mark.parametrize("size", [0, 1, 500, frames.TEXT_BYTES, frames.TEXT_BYTES + 1, channel.MAX_RESPONSE_BYTES])
def test_line_of_any_length_arrives(size):
    line = bytes(ord("a") + at % 26 for at in range(size))
    sent = [frames.encode(frame) for frame in frames.split(line, HEAD)]
    assert all(frames.SHORTEST_BYTES <= len(data) <= 1_514 for data in sent)
    assembly = frames.Assembly()
    found = [assembly.add(frames.decode(data)) for data in sent]
    assert found[-1] == line and set(found[:-1]) <= {None}


def test_repeated_line_replaces_one_with_a_lost_part():
    line = b"x" * (3 * frames.TEXT_BYTES)
    sent = frames.split(line, HEAD)
    assembly = frames.Assembly()
    assert [assembly.add(frame) for frame in (sent[0], sent[2], *sent)] == [None, None, None, None, line]
    assert assembly.add(frames.split(b"y", HEAD)[0]) == b"y"


GOOD = frames.encode(frames.Frame(HEAD.target, HEAD.source, 5, frames.REQUEST, b"abc" * 20))


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (12, 0x08),  # EtherType
        (14, ord("B")),  # magic
        (30, 3),  # kind
        (31, 1),  # part 1 of 1
        (32, 0),  # no parts
        (32, frames.MAX_PARTS + 1),
        (33, 1),  # reserved
        (34, 1),  # length beyond the frame
        (35, 61),
        (40, ord("\n")),
    ],
)
def test_frame_with_a_wrong_field_is_refused(at, value):
    assert frames.decode(GOOD).text == b"abc" * 20
    data = bytearray(GOOD)
    data[at] = value
    with pytest.raises(Refused):
        frames.decode(bytes(data))


def test_truncated_and_random_frames_are_refused():
    draw = random.Random(1)
    for size in range(len(GOOD)):
        with pytest.raises(Refused):
            frames.decode(GOOD[:size])
        with pytest.raises(Refused):
            frames.decode(draw.randbytes(size))
