"""The control channel between a program's control plane and the collector: JSON lines over TCP.

The control plane connects, proves that it has the collector's secret, which is never sent, and sends hello. The
collector responds with a session: the queue pairs for the program's reports. The control plane writes them to the
program's registers and confirms this; from then on, reports to queue pairs of earlier sessions of the same data plane
are rejected. Both sides send keepalives every second, and treat the peer as disconnected after 5 s without a message.
docs/collector.md has an example.

    {"challenge": "9f0c53c1d2a49e11..."}                                             collector, first message
    {"proof": "5d41402abc4b2a76..."}                                                 control plane
    {"hello": {"program": "flowstats", "format": 2, "instance": "5f2c"}}             control plane
    {"session": 1, "report_bytes": 192, "epoch": 0, "queue_pairs": [{"index": 0, "number": ..., ...}]}   collector
    {"written": 1}                                                                   control plane
    {"alive": 1}                                                                     both, every second
    {"ended": {"session": 1, "reports": 81234}}                                      control plane, at the end
    {"error": "..."}                                                                 collector, for an invalid line

A line is one of these objects, with exactly these members and types; any other line is rejected with an error.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from acapella_core.control_lines import Challenge, InvalidMessage, Proof, digits, members, name, parsed, whole

MAX_QUEUE_PAIRS = 16  # registers of a program (p4/sizes.p4)
REPORT_BYTES = {1: 64, 2: 192}  # by report format (schemas/report_formats.tsv)
BITS = {"number": 24, "key": 32, "base": 64, "size": 64, "psn": 24}


@dataclass(frozen=True)
class Pace:
    """Keepalive interval, and the time without a message after which the peer is treated as disconnected.

    ``secret_s``: timeout of the collector for a proof.
    """

    alive_s: float = 1.0
    dead_s: float = 5.0
    secret_s: float = 2.0


PACE = Pace()


@dataclass(frozen=True)
class Collector:
    """The address of a collector, and the file with its secret."""

    host: str
    port: int
    secret: Path


@dataclass(frozen=True)
class QueuePair:
    """The destination of reports: a ring of ``size`` bytes at address ``base``; the first report has number ``psn``.

    ``number`` has 24 bits and is not 0, ``key`` has 32 bits (a secret: anyone who knows it can write reports), ``psn``
    24 bits.
    """

    index: int
    number: int
    key: int
    base: int
    size: int
    psn: int

    def __repr__(self) -> str:
        return f"QueuePair(index={self.index}, number={self.number:#x}, size={self.size})"  # without the key


@dataclass(frozen=True)
class Hello:
    """The data plane of a control plane: program, report format, and an instance name that is new at each start."""

    program: str
    format: int
    instance: str


@dataclass(frozen=True)
class Session:
    """A data plane's queue pairs until either side restarts.

    ``epoch``, 32 bits: if the data plane has not sent reports yet, the smallest number that its first epoch may have.
    """

    number: int
    report_bytes: int
    epoch: int
    queue_pairs: tuple[QueuePair, ...]


@dataclass(frozen=True)
class Written:
    """The program's registers contain this session's queue pairs."""

    session: int


@dataclass(frozen=True)
class Alive:
    """Keepalive; ``count`` increases by one."""

    count: int


@dataclass(frozen=True)
class Ended:
    """The data plane has ended after ``reports`` reports in all its sessions; None if the number is unknown."""

    session: int
    reports: int | None


@dataclass(frozen=True)
class Error:
    """The collector rejected a line."""

    why: str


Message = Challenge | Proof | Hello | Session | Written | Alive | Ended | Error


def decode(line: bytes) -> Message:
    """Return the message of a line without its end. Raises InvalidMessage if it is too long or not a valid message."""
    message = parsed(line)
    for key, reader in READERS.items():
        if key in message:
            return reader(message)
    raise InvalidMessage("unknown message")


def encode(message: Message) -> bytes:
    """Return the line of a message, including its end."""
    return json.dumps(WRITERS[type(message)](message), separators=(",", ":")).encode() + b"\n"


def read_digits(message: dict, name: str) -> str:
    """Return the 64 hexadecimal digits of a challenge or a proof. Raises InvalidMessage."""
    return digits(members(message, "the message", name)[name], name)


def read_hello(message: dict) -> Hello:
    """Return a control plane's first message after the proof."""
    hello = members(members(message, "the message", "hello")["hello"], "hello", "program", "format", "instance")
    if type(hello["format"]) is not int or hello["format"] not in REPORT_BYTES:
        raise InvalidMessage(f"format must be one of {', '.join(map(str, REPORT_BYTES))}")
    return Hello(name(hello["program"], "program"), hello["format"], name(hello["instance"], "instance"))


def read_session(message: dict) -> Session:
    """Return the collector's response to hello."""
    session = members(message, "the session", "session", "report_bytes", "epoch", "queue_pairs")
    pairs = session["queue_pairs"]
    if not isinstance(pairs, list) or not 1 <= len(pairs) <= MAX_QUEUE_PAIRS:
        raise InvalidMessage(f"queue_pairs must be a list of 1 to {MAX_QUEUE_PAIRS} queue pairs")
    report_bytes = whole(session["report_bytes"], "report_bytes", 16, 1)
    queue_pairs = tuple(read_queue_pair(pair, index, report_bytes) for index, pair in enumerate(pairs))
    if len({pair.number for pair in queue_pairs}) < len(queue_pairs):
        raise InvalidMessage("two queue pairs have the same number")
    epoch = whole(session["epoch"], "epoch", 32)
    return Session(whole(session["session"], "session", 32, 1), report_bytes, epoch, queue_pairs)


def read_queue_pair(message: object, index: int, report_bytes: int) -> QueuePair:
    """Return one queue pair, whose index is its place in the list; its ring holds one or more complete reports."""
    pair = members(message, "a queue pair", "index", *BITS)
    values = {key: whole(pair[key], key, bits) for key, bits in BITS.items()}
    if whole(pair["index"], "index", 8) != index:
        raise InvalidMessage("the indices of queue pairs must be 0, 1, 2, ... in this order")
    if values["number"] == 0:
        raise InvalidMessage("number 0 is reserved for queue pairs that are not set up")
    if not values["size"] or values["size"] % report_bytes or values["base"] + values["size"] >= 1 << 64:
        raise InvalidMessage("size is not a multiple of the report size, or the ring ends beyond 2^64")
    return QueuePair(index, **values)


def read_written(message: dict) -> Written:
    """Return the session whose queue pairs are in the registers."""
    return Written(whole(members(message, "the message", "written")["written"], "written", 32, 1))


def read_alive(message: dict) -> Alive:
    """Return a keepalive."""
    return Alive(whole(members(message, "the message", "alive")["alive"], "alive", 53))


def read_ended(message: dict) -> Ended:
    """Return the message about the end of a data plane."""
    ended = members(members(message, "the message", "ended")["ended"], "ended", "session", "reports")
    reports = ended["reports"]
    return Ended(whole(ended["session"], "session", 32, 1), None if reports is None else whole(reports, "reports", 64))


def read_error(message: dict) -> Error:
    """Return an error; its text is shown to users, so it is shortened to one line."""
    why = members(message, "the message", "error")["error"]
    if not isinstance(why, str):
        raise InvalidMessage("error is not text")
    return Error("".join(character if character.isprintable() else "?" for character in why[:200]))


READERS = {
    "challenge": lambda message: Challenge(read_digits(message, "challenge")),
    "proof": lambda message: Proof(read_digits(message, "proof")),
    "hello": read_hello,
    "session": read_session,
    "written": read_written,
    "alive": read_alive,
    "ended": read_ended,
    "error": read_error,
}
WRITERS = {
    Challenge: lambda message: {"challenge": message.value},
    Proof: lambda message: {"proof": message.value},
    Hello: lambda message: {"hello": asdict(message)},
    Session: lambda message: {
        "session": message.number,
        "report_bytes": message.report_bytes,
        "epoch": message.epoch,
        "queue_pairs": [asdict(pair) for pair in message.queue_pairs],
    },
    Written: lambda message: {"written": message.session},
    Alive: lambda message: {"alive": message.count},
    Ended: lambda message: {"ended": asdict(message)},
    Error: lambda message: {"error": message.why},
}
