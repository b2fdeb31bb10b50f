"""Fuzz the readers of both control channels: every line is either a message or raises InvalidMessage.

Usage: fuzz_control.py CRASHES (-runs=N [-seed=N] | -max_total_time=SECONDS)

Collector: an encoded message is decoded to the same message, and no error quotes the line. Replayer: a line is decoded
to the same request, or refused for the same reason, over TCP and in Ethernet frames, without an HMAC and with a
correct one. Inputs are mutated seeds, the same for the same -seed; options and output are those of libFuzzer that
run.sh uses.
"""

import json
import random
import sys
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

from acapella.common import control_channel as channel
from acapella_capture.replay import channel as replay_channel
from acapella_capture.replay import frames, messages

WORDS = (
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"18446744073709551616",
    b'""',
    b"[]",
    b"{}",
    b"NaN",
    b"\\ud800",
    b"\0",
    b",",
)
PAIR = channel.QueuePair(0, 17, 1 << 31, 1 << 40, 192 * 8, 5)
MESSAGES = (
    channel.Challenge("5ec7e7" * 10 + "0000"),
    channel.Proof("5ec7e7" * 10 + "0001"),
    channel.Hello("flowstats", 2, "5f2c"),
    channel.Session(1, 192, 7, (PAIR, channel.QueuePair(1, 18, 2, 0, 192, 0))),
    channel.Written(1),
    channel.Alive(3),
    channel.Ended(1, 81_234),
    channel.Ended(1, None),
    channel.Error("no such session"),
)


KEY = bytes(32)
REQUESTS = (
    messages.Record(0, 1_700_000_000_000_000_000),
    messages.Rolling(10),
    messages.Run(1_700_000_000_000_000_000, 3, 2_000_000),
    messages.Fetch(65_536),
    messages.Status(),
    messages.Disconnect(),
)
HEAD = frames.Frame(b"\2\0\0\0\0\1", b"\2\0\0\0\0\2", 1 << 63, frames.REQUEST)


def mutated(draw: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return a seed with some bytes changed, removed, repeated or replaced by a word."""
    text = bytearray(draw.choice(seeds))
    for _ in range(draw.choice((1, 1, 2, 4, 16))):
        at, until = sorted((draw.randrange(len(text) + 1), min(len(text), draw.randrange(len(text) + 1))))
        kind = draw.randrange(6)
        if kind == 0 and at < len(text):
            text[at] = draw.randrange(256)
        elif kind == 1:
            del text[at : min(until, at + 8)]
        elif kind == 2:
            text[at:at] = text[at:until]
        elif kind == 3:
            text[at:at] = draw.choice(WORDS)
        elif kind == 4:
            text[at:until] = draw.choice(WORDS)
        else:
            other = draw.choice(seeds)
            text[at:] = other[draw.randrange(len(other)) :]
    return bytes(text)


def check_line(line: bytes) -> None:
    """Check one line of the control channel."""
    try:
        message = channel.decode(line)
    except channel.InvalidMessage as refusal:
        # names of members, which refusals list, have at most 12 characters
        words = [word.strip(b", ").decode("utf-8", "replace") for word in line.split(b'"')]
        quoted = [word for word in words if len(word) > 12 and word in str(refusal)]
        assert not quoted, refusal
        return
    assert json.loads(line), "a message is an object with at least one member"
    text = channel.encode(message)
    assert text.endswith(b"\n") and text.count(b"\n") == 1 and channel.decode(text[:-1]) == message


def check_request(text: bytes) -> None:
    """Check that a text, with its HMAC or without, has the same outcome over TCP and in frames."""
    text = text.replace(b"\n", b" ")
    for line in (text, replay_channel.mac_of(KEY, text) + b" " + text):
        assembly, joined = frames.Assembly(), None
        for frame in frames.split(line, HEAD):
            joined = assembly.add(frames.decode(frames.encode(frame)))
        assert joined == line and outcome(joined) == outcome(line)
    check_frame(line)


def outcome(line: bytes) -> object:
    """Return the request of a line, or why it is refused."""
    reader = replay_channel.Reader(KEY, replay_channel.MAX_REQUEST_BYTES)
    try:
        sequence, message = reader.message(line)
        request = messages.decode(message)
    except replay_channel.InvalidMessage as refusal:
        return str(refusal)
    assert sequence == 1 and messages.decode(messages.encode(request)) == request
    return request


def check_frame(data: bytes) -> None:
    """Check that bytes are rejected or are the encoding of a frame: ``data`` alone, and after an Ethernet header."""
    for frame_bytes in (data, frames.encode(HEAD)[:14] + data):
        try:
            frame = frames.decode(frame_bytes)
        except frames.InvalidMessage:
            continue
        used = frames.HEADER.size + len(frame.text)
        assert frames.encode(frame)[:used] == frame_bytes[:used] and frame.part < frame.parts


def check(line: bytes) -> None:
    """Check an input of either channel."""
    check_line(line)
    check_request(line)
    check_frame(line)


def main(crashes: Path, options: dict[str, int]) -> int:
    """Check lines until the limit; one that fails its check is written to ``crashes``."""
    draw = random.Random(options.get("seed"))
    seeds = [channel.encode(message)[:-1] for message in MESSAGES]
    seeds += [json.dumps({"seq": 1, **messages.encode(request)}).encode() for request in REQUESTS]
    seeds += [frames.encode(frame)[14:] for frame in frames.split(seeds[-1], HEAD)]
    end, max_runs, done = time.monotonic() + options.get("max_total_time", 1 << 30), options.get("runs", 1 << 60), 0
    while done < max_runs and time.monotonic() < end:
        line = seeds[done] if done < len(seeds) else mutated(draw, seeds)
        try:
            check(line)
        except Exception:
            failed = crashes / f"fuzz_control-{zlib.crc32(line):08x}"
            failed.write_bytes(line)
            print(f"Test unit written to {failed}")
            raise
        done += 1
    print(f"stat::number_of_executed_units: {done}")
    return 0


if __name__ == "__main__":
    settings = dict(word.removeprefix("-").split("=") for word in sys.argv[2:])
    sys.exit(main(Path(sys.argv[1]), {name: int(value) for name, value in settings.items()}))
