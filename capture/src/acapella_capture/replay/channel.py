"""Lines of the control channel between a controller and the agent of a replayer: authenticated and numbered.

Both sides have the same secret, which is never sent. The agent sends a challenge; the controller responds with its own
challenge and a proof. From the secret and both challenges, both derive a key for each direction, so that a line of one
connection or direction is invalid in every other:

    {"challenge": "9f0c...", "version": 1}                      agent, first line
    {"challenge": "77ab...", "proof": "5d41..."}                controller
    3f5e...  {"seq": 1, "welcome": {...}}                       agent
    a702...  {"seq": 1, "status": {}}                           controller
    91c0...  {"seq": 2, "to": 1, "done": {...}}                 agent

A line after the proof has 64 hexadecimal digits, a space and a JSON object: the digits are the HMAC-SHA-256 of the
object's bytes. ``seq`` counts the lines of a direction from 1. A line is parsed only after its HMAC was verified.
"""

import hmac
import json
from dataclasses import dataclass
from typing import Any

from acapella_core.control_lines import Challenge, InvalidMessage, Secret, digits, members, parsed, whole

VERSION = 1
MAC_DIGITS = 64
MAX_REQUEST_BYTES = 4_096  # maximum length of a controller's line
MAX_RESPONSE_BYTES = 131_072  # of an agent's line: a part of a departures file, as base64
SEQUENCE_BITS = 53  # JSON integers of this size are exact in all parsers


class InvalidLine(InvalidMessage):
    """A line that is not accepted. ``count`` is the name of its counter."""

    def __init__(self, count: str, why: str):
        super().__init__(why)
        self.count = count


@dataclass(frozen=True)
class Keys:
    """The values that both sides derive from the secret and their challenges. Only the proof is sent."""

    proof: str
    from_controller: bytes
    from_agent: bytes

    @classmethod
    def derive(cls, secret: Secret, agent: Challenge, controller: Challenge) -> "Keys":
        """Return the keys of a connection: HMAC-SHA-256 of a label and both challenges."""

        def value(label: str) -> bytes:
            text = f"acapella replay {VERSION} {label}\0{agent.value}{controller.value}"
            return hmac.digest(bytes.fromhex(secret.value), text.encode("ascii"), "sha256")

        return cls(value("proof").hex(), value("controller"), value("agent"))

    def __repr__(self) -> str:
        return "Keys()"  # they must not be in logs


def encode_challenge(challenge: Challenge) -> bytes:
    """Return the agent's first line."""
    return plain_line({"challenge": challenge.value, "version": VERSION})


def decode_challenge(line: bytes) -> Challenge:
    """Return the agent's challenge. Raises InvalidMessage, including for a different protocol version."""
    message = parsed(line)
    if "error" in message:
        raise InvalidMessage(error_text(message))
    fields = members(message, "the challenge", "challenge", "version")
    if fields["version"] != VERSION:
        raise InvalidMessage("this replayer has a different version of Acapella")
    return Challenge(digits(fields["challenge"], "challenge"))


def encode_proof(challenge: Challenge, proof: str) -> bytes:
    """Return the controller's first line."""
    return plain_line({"challenge": challenge.value, "proof": proof})


def decode_proof(line: bytes) -> tuple[Challenge, str]:
    """Return the controller's challenge and its proof. Raises InvalidMessage."""
    fields = members(parsed(line), "the proof", "challenge", "proof")
    return Challenge(digits(fields["challenge"], "challenge")), digits(fields["proof"], "proof")


def error_text(message: dict) -> str:
    """Return the text of a plain error, shortened and printable, because anyone can send one. Raises InvalidMessage."""
    text = members(message, "the message", "error")["error"]
    if not isinstance(text, str):
        raise InvalidMessage("error is not text")
    return "".join(character if character.isprintable() else "?" for character in text[:200])


def plain_line(message: dict) -> bytes:
    """Return a line without an HMAC."""
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


class Writer:
    """Encodes the lines of one direction of a connection."""

    def __init__(self, key: bytes):
        self._key = key
        self.sequence = 0

    def line(self, **message: Any) -> bytes:
        """Return the next line with a message, with its sequence number, HMAC and line end."""
        self.sequence += 1
        text = json.dumps({"seq": self.sequence, **message}, separators=(",", ":")).encode("ascii")
        return mac_of(self._key, text) + b" " + text + b"\n"


class Reader:
    """Decodes the lines of one direction of a connection, which must be complete, authentic and in order."""

    def __init__(self, key: bytes, max_bytes: int):
        self._key = key
        self._max_bytes = max_bytes
        self._sequence = 0

    def message(self, line: bytes | None) -> tuple[int, dict]:
        """Return the sequence number and the other members of a line.

        ``line`` does not contain the line end; it is None if the line was too long to be read. Raises InvalidLine. A
        rejected line does not change the expected sequence number.
        """
        if line is None or len(line) > self._max_bytes:
            raise InvalidLine("oversized", f"line longer than {self._max_bytes} bytes")
        mac, space, text = line[:MAC_DIGITS], line[MAC_DIGITS : MAC_DIGITS + 1], line[MAC_DIGITS + 1 :]
        if space != b" " or not hmac.compare_digest(mac, mac_of(self._key, text)):
            raise InvalidLine("forged", "the HMAC of the line is wrong")
        try:
            message = parsed(text, self._max_bytes)
            sequence = whole(message.pop("seq", None), "seq", SEQUENCE_BITS, 1)
        except InvalidMessage as why:
            raise InvalidLine("invalid", str(why)) from None
        if sequence != self._sequence + 1:
            count = "replayed" if sequence <= self._sequence else "reordered"
            raise InvalidLine(count, f"sequence number {sequence}, expected {self._sequence + 1}")
        self._sequence = sequence
        return sequence, message


def mac_of(key: bytes, text: bytes) -> bytes:
    """Return the HMAC of a line's JSON, as hexadecimal digits."""
    return hmac.digest(key, text, "sha256").hex().encode("ascii")
