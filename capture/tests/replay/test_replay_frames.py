"""Frames of in-band control: lines survive transport in frames, and anything else is rejected."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acapella_capture.replay import channel, frames
from acapella_core.control_lines import InvalidMessage

HEAD = frames.Frame(b"\2\0\0\0\0\7", b"\2\0\0\0\0\1", 1 << 63, frames.RESPONSE)


@pytest.mark.parametrize("size", [0, 1, 500, frames.TEXT_BYTES, frames.TEXT_BYTES + 1, channel.MAX_RESPONSE_BYTES])
def test_line_of_any_length_arrives(size):
    line = bytes(ord("a") + at % 26 for at in range(size))
    sent = [frames.encode(frame) for frame in frames.split(line, HEAD)]
    assert all(frames.MIN_FRAME_BYTES <= len(data) <= 1_514 for data in sent)
    assembly = frames.Assembly()
    found = [assembly.add(frames.decode(data)) for data in sent]
    assert found[-1] == line and set(found[:-1]) <= {None}


def response(number: int, size: int, letter: int) -> list[frames.Frame]:
    """Return the frames of the response to a line."""
    return frames.split(bytes([letter]) * size, replace(HEAD, number=number))


def test_repeated_response_completes_one_with_a_lost_part():
    line, assembly = b"x" * (3 * frames.TEXT_BYTES), frames.Assembly()
    sent = frames.split(line, HEAD)
    assert [assembly.add(frame) for frame in (sent[0], sent[2], *sent)] == [None, None, None, line, None]


def test_parts_of_a_repeated_response_are_not_joined_with_those_of_the_next_one():
    """The repeated response to line 1 is delayed until that to line 2 arrives, whose first part was lost."""
    size, assembly = 2 * frames.TEXT_BYTES, frames.Assembly()
    first, second = response(1, size, ord("a")), response(2, size, ord("b"))
    assembly.expect(1)
    assert [assembly.add(frame) for frame in first] == [None, b"a" * size]
    assembly.expect(2)
    assert [assembly.add(frame) for frame in (first[0], second[1], first[1], second[0])] == [
        None,
        None,
        None,
        b"b" * size,
    ]


def test_contradictory_part_restarts_the_response():
    size, assembly = 3 * frames.TEXT_BYTES, frames.Assembly()
    genuine, forged = response(0, size, ord("a")), response(0, size, ord("z"))
    assert [assembly.add(frame) for frame in (genuine[0], forged[1], *genuine[1:])] == [None] * 4
    assert assembly.add(genuine[0]) == b"a" * size
    assembly.expect(0)
    assert [assembly.add(frame) for frame in (genuine[0], replace(genuine[1], parts=2), *genuine)][-1] == b"a" * size


@st.composite
def arrivals(draw) -> tuple[list[int], list[frames.Frame]]:
    """Return the sizes of the responses to lines 0 to 3, and parts of them, some repeated, in any order."""
    sizes = [draw(st.integers(1, 4 * frames.TEXT_BYTES)) for _ in range(4)]
    parts = [part for number, size in enumerate(sizes) for part in response(number, size, ord("a") + number)]
    return sizes, draw(st.lists(st.sampled_from(parts), max_size=40))


@given(arrivals())
def test_duplicated_and_reordered_parts_give_only_the_expected_response(arrived):
    sizes, parts = arrived
    for number, size in enumerate(sizes):
        assembly = frames.Assembly()
        assembly.expect(number)
        lines = [line for part in parts if (line := assembly.add(part)) is not None]
        complete = {part.part for part in parts if part.number == number} == {*range(len(response(number, size, 0)))}
        assert lines == [bytes([ord("a") + number]) * size] * complete


@given(st.lists(st.builds(replace, st.just(HEAD), number=st.integers(0, 1), parts=st.integers(1, 4),
                          part=st.integers(0, 3), text=st.sampled_from([b"", b"a", b"b"])), max_size=30))  # fmt: skip
def test_any_parts_give_at_most_one_line_of_received_parts(parts):
    parts = [part for part in parts if part.part < part.parts]  # as `decode` checks
    assembly = frames.Assembly()
    lines = [line for part in parts if (line := assembly.add(part)) is not None]
    assert len(lines) <= 1
    assert sum(map(len, lines)) <= sum(len(part.text) for part in parts if part.number == 0)


GOOD = frames.encode(frames.Frame(HEAD.target, HEAD.source, 5, frames.REQUEST, b"abc" * 20))


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (12, 0x08),  # EtherType
        (14, ord("B")),  # magic
        (34, 3),  # kind
        (35, 1),  # part 1 of 1
        (36, 0),  # no parts
        (36, frames.MAX_PARTS + 1),
        (37, 1),  # reserved
        (38, 1),  # length beyond the frame
        (39, 61),
        (44, ord("\n")),
    ],
)
def test_frame_with_a_wrong_field_is_rejected(at, value):
    assert frames.decode(GOOD).text == b"abc" * 20
    data = bytearray(GOOD)
    data[at] = value
    with pytest.raises(InvalidMessage):
        frames.decode(bytes(data))


def test_truncated_and_random_frames_are_rejected():
    draw = random.Random(1)
    for size in range(len(GOOD)):
        with pytest.raises(InvalidMessage):
            frames.decode(GOOD[:size])
        with pytest.raises(InvalidMessage):
            frames.decode(draw.randbytes(size))
