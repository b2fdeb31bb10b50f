"""The control channel between a program's control plane and the collector: JSON lines over TCP.

The control plane connects, proves that it has the collector's secret, which is never sent, and says hello; the
collector answers with a session: the queue pairs that the program's reports are to be written to. The control plane
writes them to the program's registers and says so; from then on the numbers of the session before are refused. Both say
that they are alive each second; who hears nothing for 5 s takes the other side for gone. docs/collector.md shows a
conversation.

    {"challenge": "9f0c53c1d2a49e11..."}                                             collector, first of all
    {"proof": "5d41402abc4b2a76..."}                                                 control plane
    {"hello": {"program": "flowstats", "format": 2, "instance": "5f2c"}}             control plane
    {"session": 1, "report_bytes": 192, "epoch": 0, "queue_pairs": [{"index": 0, "number": ..., ...}]}   collector
    {"written": 1}                                                                   control plane
    {"alive": 1}                                                                     both, each second
    {"ended": {"session": 1, "reports": 81234}}                                      control plane, at the end
    {"error": "..."}                                                                 collector, of a line it refuses

A line is an object with one of these, of exactly these types; anything else is refused in one line.
"""

import hmac
import json
import os
import re
import secrets
import stat
from dataclasses import asdict, dataclass, field
from pathlib import Path

from acapella_core import files
from acapella_core.errors import UserError

MOST_LINE_BYTES = 16_384  # 16 queue pairs take 2,000
MOST_QUEUE_PAIRS = 16  # registers of a program (p4/sizes.p4)
REPORT_BYTES = {1: 64, 2: 192}  # by the report's format (schemas/report_formats.tsv)
NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
DIGITS = re.compile(r"[0-9a-f]{64}")  # of secrets, challenges and proofs
BITS = {"number": 24, "key": 32, "base": 64, "size": 64, "psn": 24}


@dataclass(frozen=True)
class Pace:
    """How often a side says that it is alive, and after how much silence the other takes it for gone.

    ``secret_s``: how long the collector waits for a proof.
    """

    alive_s: float = 1.0
    dead_s: float = 5.0
    secret_s: float = 2.0


PACE = Pace()


class Refused(Exception):
    """A line that is not one of the channel's, and why, in few words; never with what the line said."""


@dataclass(frozen=True)
class Collector:
    """The address of a collector, and the file with its secret."""

    host: str
    port: int
    secret: Path


@dataclass(frozen=True)
class Secret:
    """The collector's secret of this run, 64 hexadecimal digits: a control plane may read its file."""

    value: str = field(repr=False)

    def proof(self, challenge: "Challenge") -> "Proof":
        """Return what shows that we have the secret: HMAC-SHA-256 (RFC 2104) of the challenge's digits."""
        return Proof(hmac.digest(bytes.fromhex(self.value), challenge.value.encode("ascii"), "sha256").hex())


@dataclass(frozen=True)
class Challenge:
    """What the collector sends first, 64 hexadecimal digits, never the same twice."""

    value: str

    @classmethod
    def new(cls) -> "Challenge":
        """Return one that nobody can guess."""
        return cls(secrets.token_hex(32))


@dataclass(frozen=True)
class Proof:
    """The answer to a challenge, 64 hexadecimal digits: the sender has the secret."""

    value: str


@dataclass(frozen=True)
class QueuePair:
    """Where reports go: ring memory of ``size`` bytes at address ``base``, the first report with number ``psn``.

    ``number`` 24 bits and not 0, ``key`` 32 bits (a secret: whoever has it can write reports), ``psn`` 24 bits.
    """

    index: int
    number: int
    key: int
    base: int
    size: int
    psn: int

    def __repr__(self) -> str:
        return f"QueuePair(index={self.index}, number={self.number:#x}, size={self.size})"  # the key is in no log


@dataclass(frozen=True)
class Hello:
    """What a control plane says of its data plane: program, report format, and a name that is new at each start."""

    program: str
    format: int
    instance: str


@dataclass(frozen=True)
class Session:
    """A data plane's queue pairs for as long as neither side starts anew.

    ``epoch``, 32 bits: the least number that its first epoch may have, where nothing of it was reported yet.
    """

    number: int
    report_bytes: int
    epoch: int
    queue_pairs: tuple[QueuePair, ...]


@dataclass(frozen=True)
class Written:
    """The program's registers hold this session's queue pairs."""

    session: int


@dataclass(frozen=True)
class Alive:
    """A side is there; ``count`` rises by one."""

    count: int


@dataclass(frozen=True)
class Ended:
    """The data plane has ended, ``reports`` reports after it began, of all its sessions; None where it cannot tell."""

    session: int
    reports: int | None


@dataclass(frozen=True)
class Error:
    """The collector refuses what it was told."""

    why: str


Message = Challenge | Proof | Hello | Session | Written | Alive | Ended | Error


def decode(line: bytes) -> Message:
    """The message of one line, without its end. Raises Refused: too long, not JSON, not one of the messages."""
    told = parsed(line)
    for key, reader in READERS.items():
        if key in told:
            return reader(told)
    raise Refused("it is none of the channel's messages")


def parsed(line: bytes) -> dict:
    """A line's JSON object. Raises Refused where it is none, or nested as no message is."""
    if len(line) > MOST_LINE_BYTES:
        raise Refused(f"it is longer than {MOST_LINE_BYTES} bytes")
    try:
        told = json.loads(line.decode("utf-8"), object_pairs_hook=without_doubles, parse_constant=refuse_constant)
    except RecursionError:
        raise Refused("it is nested too deep") from None
    except ValueError:  # of the text, of a number with thousands of digits, or ours
        raise Refused("it is not a JSON object") from None
    if not isinstance(told, dict):
        raise Refused("it is not a JSON object")
    return told


def without_doubles(pairs: list[tuple]) -> dict:
    """An object's members. Raises ValueError where a name occurs twice: readers differ on which one counts."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name occurs twice")
    return members


def refuse_constant(name: str) -> None:
    """Refuse NaN and Infinity, which are Python's and not JSON's."""
    raise ValueError(name)


def encode(message: Message) -> bytes:
    """The line of a message, its end included."""
    return json.dumps(WRITERS[type(message)](message), separators=(",", ":")).encode() + b"\n"


def members(told: object, what: str, *names: str) -> dict:
    """An object with exactly these members. Raises Refused."""
    if not isinstance(told, dict) or set(told) != set(names):
        raise Refused(f"{what} is to have exactly {', '.join(names)}")
    return told


def whole(value: object, what: str, bits: int, least: int = 0) -> int:
    """An integer of so many bits. Raises Refused; true and 1.0 are none."""
    if type(value) is not int or not least <= value < 1 << bits:
        raise Refused(f"{what} is not a whole number from {least} to 2^{bits} - 1")
    return value


def name(value: object, what: str) -> str:
    """A name of 1 to 64 letters, digits, dots and dashes, so that it can stand in a log. Raises Refused."""
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise Refused(f"{what} is not a name of 1 to 64 letters, digits, '.', '_' and '-'")
    return value


def read_digits(told: dict, name: str) -> str:
    """Return the 64 hexadecimal digits of a message. Raises Refused."""
    value = members(told, "the message", name)[name]
    if not isinstance(value, str) or not DIGITS.fullmatch(value):
        raise Refused(f"{name} is not 64 hexadecimal digits")
    return value


def read_hello(told: dict) -> Hello:
    """A control plane's first line."""
    hello = members(members(told, "the message", "hello")["hello"], "hello", "program", "format", "instance")
    if type(hello["format"]) is not int or hello["format"] not in REPORT_BYTES:
        raise Refused(f"format is none of {', '.join(map(str, REPORT_BYTES))}")
    return Hello(name(hello["program"], "program"), hello["format"], name(hello["instance"], "instance"))


def read_session(told: dict) -> Session:
    """The collector's answer to a hello."""
    session = members(told, "the session", "session", "report_bytes", "epoch", "queue_pairs")
    pairs = session["queue_pairs"]
    if not isinstance(pairs, list) or not 1 <= len(pairs) <= MOST_QUEUE_PAIRS:
        raise Refused(f"queue_pairs is not a list of 1 to {MOST_QUEUE_PAIRS}")
    report_bytes = whole(session["report_bytes"], "report_bytes", 16, 1)
    found = tuple(read_queue_pair(pair, index, report_bytes) for index, pair in enumerate(pairs))
    if len({pair.number for pair in found}) < len(found):
        raise Refused("two queue pairs have one number")
    epoch = whole(session["epoch"], "epoch", 32)
    return Session(whole(session["session"], "session", 32, 1), report_bytes, epoch, found)


def read_queue_pair(told: object, index: int, report_bytes: int) -> QueuePair:
    """One queue pair, at its place in the list; its ring holds one report or more, and whole ones."""
    pair = members(told, "a queue pair", "index", *BITS)
    values = {key: whole(pair[key], key, bits) for key, bits in BITS.items()}
    if whole(pair["index"], "index", 8) != index:
        raise Refused("index does not count up from 0")
    if values["number"] == 0:
        raise Refused("number 0 means that a queue pair is not set up")
    if not values["size"] or values["size"] % report_bytes or values["base"] + values["size"] >= 1 << 64:
        raise Refused("size is not a multiple of the report's, or ends behind 2^64")
    return QueuePair(index, **values)


def read_written(told: dict) -> Written:
    """The session whose queue pairs are in the registers."""
    return Written(whole(members(told, "the message", "written")["written"], "written", 32, 1))


def read_alive(told: dict) -> Alive:
    """A sign of life."""
    return Alive(whole(members(told, "the message", "alive")["alive"], "alive", 53))


def read_ended(told: dict) -> Ended:
    """The end of a data plane."""
    ended = members(members(told, "the message", "ended")["ended"], "ended", "session", "reports")
    reports = ended["reports"]
    return Ended(whole(ended["session"], "session", 32, 1), None if reports is None else whole(reports, "reports", 64))


def read_error(told: dict) -> Error:
    """A refusal; what it says goes to a person, so it is cut and made one line."""
    why = members(told, "the message", "error")["error"]
    if not isinstance(why, str):
        raise Refused("error is not text")
    return Error("".join(sign if sign.isprintable() else "?" for sign in why[:200]))


READERS = {
    "challenge": lambda told: Challenge(read_digits(told, "challenge")),
    "proof": lambda told: Proof(read_digits(told, "proof")),
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


def make_secret(path: Path) -> Secret:
    """Write a new secret to a file that only its owner can read. Raises UserError if it cannot be written."""
    secret = Secret(secrets.token_hex(32))
    files.atomic_text(path, f"{secret.value}\n")
    return secret


def secret_of(path: Path) -> Secret:
    """Return the secret in a file. Raises OSError, or Refused if it is not a private file with a secret."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise Refused(f"other users can use {path}; chmod 600")
        text = file.read(MOST_LINE_BYTES).decode("ascii", errors="replace").strip()
    if not DIGITS.fullmatch(text):
        raise Refused(f"{path} has no secret of a collector")
    return Secret(text)


def address(text: str) -> tuple[str, int]:
    """``HOST:PORT``, the host of IPv6 in brackets; port 0 only where one listens. Raises UserError."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise UserError(f"{text!r} is not HOST:PORT", fix="write it as 127.0.0.1:4700")
    return host, int(port)
