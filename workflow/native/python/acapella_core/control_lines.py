"""Lines of an authenticated control channel: strict JSON, proofs of a shared secret, and private files with secrets.

Both sides have the same secret of 64 hexadecimal digits, in a file that only its owner can read. The secret is never
sent: the listening side sends a random challenge, and the other side responds with its HMAC.
"""

import asyncio
import hmac
import json
import os
import re
import secrets
import stat
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from . import files
from .errors import UserError

MAX_LINE_BYTES = 16_384  # 16 queue pairs take 2,000 bytes
NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
HEX_DIGITS = re.compile(r"[0-9a-f]{64}")  # of secrets, challenges and proofs


class InvalidMessage(Exception):
    """Raised if a line is not a valid message. The text is the reason, and never contains the line."""


@dataclass(frozen=True)
class Secret:
    """The secret that both sides have, 64 hexadecimal digits."""

    value: str = field(repr=False)

    def proof(self, challenge: "Challenge") -> "Proof":
        """Return the proof of the secret: HMAC-SHA-256 (RFC 2104) of the challenge's digits."""
        return Proof(hmac.digest(bytes.fromhex(self.value), challenge.value.encode("ascii"), "sha256").hex())


@dataclass(frozen=True)
class Challenge:
    """The first message of the side that listens: 64 random hexadecimal digits."""

    value: str

    @classmethod
    def new(cls) -> "Challenge":
        """Return a random challenge."""
        return cls(secrets.token_hex(32))


@dataclass(frozen=True)
class Proof:
    """The response to a challenge, 64 hexadecimal digits, which proves that the sender knows the secret."""

    value: str


def parsed(line: bytes, max_bytes: int = MAX_LINE_BYTES) -> dict:
    """Return the JSON object of a line. Raises InvalidMessage if it is not one, too long, or nested too deeply."""
    if len(line) > max_bytes:
        raise InvalidMessage(f"line longer than {max_bytes} bytes")
    try:
        message = json.loads(line.decode("utf-8"), object_pairs_hook=unique_members, parse_constant=refuse_constant)
    except RecursionError:
        raise InvalidMessage("nested too deeply") from None
    except ValueError:  # invalid UTF-8 or JSON, a number with thousands of digits, or raised by the hooks
        raise InvalidMessage("not a JSON object") from None
    if not isinstance(message, dict):
        raise InvalidMessage("not a JSON object")
    return message


def unique_members(pairs: list[tuple]) -> dict:
    """Return an object's members. Raises ValueError if a name occurs twice, which parsers handle differently."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name occurs twice")
    return members


def refuse_constant(name: str) -> None:
    """Reject NaN and Infinity, which Python accepts but JSON does not define."""
    raise ValueError(name)


def members(message: object, what: str, *names: str) -> dict:
    """Return an object with exactly these members. Raises InvalidMessage."""
    if not isinstance(message, dict) or set(message) != set(names):
        raise InvalidMessage(f"{what} must have exactly {', '.join(names)}")
    return message


def whole(value: object, what: str, bits: int, minimum: int = 0) -> int:
    """Return an integer of up to ``bits`` bits. Raises InvalidMessage for all other values, including true and 1.0."""
    if type(value) is not int or not minimum <= value < 1 << bits:
        raise InvalidMessage(f"{what} is not a whole number from {minimum} to 2^{bits} - 1")
    return value


def name(value: object, what: str) -> str:
    """Return a name of 1 to 64 letters, digits, '.', '_' and '-', which is safe in logs. Raises InvalidMessage."""
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise InvalidMessage(f"{what} is not a name of 1 to 64 letters, digits, '.', '_' and '-'")
    return value


def digits(value: object, what: str) -> str:
    """Return a text of 64 hexadecimal digits. Raises InvalidMessage."""
    if not isinstance(value, str) or not HEX_DIGITS.fullmatch(value):
        raise InvalidMessage(f"{what} is not 64 hexadecimal digits")
    return value


def make_secret(path: Path) -> Secret:
    """Write a new secret to a file that only its owner can read. Raises UserError if it cannot be written."""
    secret = Secret(secrets.token_hex(32))
    files.atomic_text(path, f"{secret.value}\n")
    return secret


def secret_of(path: Path) -> Secret:
    """Return the secret in a file. Raises OSError, or InvalidMessage if it is not a private file with a secret."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise InvalidMessage(f"other users can access {path}; chmod 600")
        text = file.read(MAX_LINE_BYTES).decode("ascii", errors="replace").strip()
    if not HEX_DIGITS.fullmatch(text):
        raise InvalidMessage(f"{path} does not contain a secret of 64 hexadecimal digits")
    return Secret(text)


def address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``; IPv6 addresses are in brackets.

    Port 0 is only valid for listening. Raises UserError.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise UserError(f"{text!r} is not HOST:PORT", fix="write it as 127.0.0.1:4700")
    return host, int(port)


async def lines(reader: asyncio.StreamReader, timeout_s: float) -> AsyncIterator[bytes | None]:
    """Yield lines without their ends; None for a line longer than the reader's limit, which is skipped.

    Raises TimeoutError if none arrives for ``timeout_s``, asyncio.IncompleteReadError at the end.
    """
    while True:
        async with asyncio.timeout(timeout_s):
            line = await read_line(reader)
        yield line


async def read_line(reader: asyncio.StreamReader) -> bytes | None:
    """Return the next line; None if it is too long."""
    try:
        return (await reader.readuntil(b"\n"))[:-1]
    except asyncio.LimitOverrunError as overrun:
        await skip_line(reader, overrun.consumed)
        return None


async def skip_line(reader: asyncio.StreamReader, buffered: int) -> None:
    """Skip the rest of a line that is too long for the buffer."""
    while True:
        await reader.readexactly(buffered)
        try:
            await reader.readuntil(b"\n")
            return
        except asyncio.LimitOverrunError as overrun:
            buffered = overrun.consumed
