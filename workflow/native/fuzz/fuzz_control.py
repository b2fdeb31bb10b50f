"""Fuzz the control channel's reader: every line is either a message or raises Refused.

Usage: fuzz_control.py CRASHES (-runs=N [-seed=N] | -max_total_time=SECONDS)

An encoded message is decoded to the same message, and no error quotes the line. Inputs are mutated seeds, the same for
the same seed; options and output are those of libFuzzer that run.sh uses.
"""

import json
import random
import sys
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

from acapella.common import control_channel as channel

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
    except channel.Refused as refusal:
        # names of members, which refusals list, have at most 12 characters
        words = [word.strip(b", ").decode("utf-8", "replace") for word in line.split(b'"')]
        quoted = [word for word in words if len(word) > 12 and word in str(refusal)]
        assert not quoted, refusal
        return
    assert json.loads(line), "a message is an object with a member"
    text = channel.encode(message)
    assert text.endswith(b"\n") and text.count(b"\n") == 1 and channel.decode(text[:-1]) == message


def main(crashes: Path, options: dict[str, int]) -> int:
    """Check lines until the limit; one that fails its check is written to ``crashes``."""
    draw = random.Random(options.get("seed"))
    seeds = [channel.encode(message)[:-1] for message in MESSAGES]
    end, most, done = time.monotonic() + options.get("max_total_time", 1 << 30), options.get("runs", 1 << 60), 0
    while done < most and time.monotonic() < end:
        line = seeds[done] if done < len(seeds) else mutated(draw, seeds)
        try:
            check_line(line)
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
