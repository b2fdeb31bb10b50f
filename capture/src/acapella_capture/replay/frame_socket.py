"""The controller's side of in-band control: a socket for frames (frames.py), used like a TCP socket.

Its address is INTERFACE/MAC: this machine's interface on the data path, and the MAC address of a port of the bridge.
"""

import contextlib
import re
import secrets
import socket
import time
from dataclasses import replace
from typing import Self

from acapella_core.control_lines import InvalidMessage
from acapella_core.errors import UserError

from . import frames

ADDRESS = re.compile(r"([A-Za-z0-9._-]{1,15})/((?:[0-9a-f]{2}:){5}[0-9a-f]{2})")
REPEAT_S = 0.3  # interval at which an unanswered line is resent
PACKET_OUTGOING = 4  # type of frames that this machine sent (packet(7), linux/if_packet.h)


def is_frame_address(name: str) -> bool:
    """Return whether an address is INTERFACE/MAC, for in-band control, not HOST:PORT."""
    return "/" in name


def parse(name: str) -> tuple[str, bytes]:
    """Return the interface and the MAC address. Raises UserError."""
    match = ADDRESS.fullmatch(name)
    if match is None:
        raise UserError(f"{name!r} is not INTERFACE/MAC, such as eth1/02:00:00:00:00:01", where="--control")
    return match[1], bytes.fromhex(match[2].replace(":", ""))


class FrameSocket:
    """A session with a replayer. Methods raise OSError, or TimeoutError if nothing arrives in time."""

    def __init__(self, name: str, timeout_s: float):
        interface, target = parse(name)
        self._timeout_s = timeout_s
        self._closed = False
        self._line = b""  # the latest line sent
        self._parts = frames.Assembly()
        protocol = socket.htons(frames.ETHER_TYPE)
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        try:
            self._socket.bind((interface, frames.ETHER_TYPE))
            own_mac = self._socket.getsockname()[4][:6]
            self._head = frames.Frame(target, own_mac, secrets.randbits(64), frames.REQUEST)
            self._send()
        except BaseException:
            self._socket.close()
            raise

    def makefile(self, mode: str) -> Self:
        """Return an object with `readline`."""
        return self

    def settimeout(self, timeout_s: float) -> None:
        """Set the time to wait for a line."""
        self._timeout_s = timeout_s

    def sendall(self, line: bytes) -> None:
        """Send a line. Parts of earlier responses that still arrive are ignored."""
        self._line = line.removesuffix(b"\n")
        self._head = replace(self._head, number=self._head.number + 1)
        self._parts.expect(self._head.number)
        self._send()

    def readline(self, limit: int) -> bytes:
        """Return the next line; the latest sent one is repeated until it arrives."""
        end = time.monotonic() + self._timeout_s
        while (remaining_s := end - time.monotonic()) > 0 and not self._closed:
            self._socket.settimeout(min(REPEAT_S, remaining_s))
            try:
                line = self._next()
            except TimeoutError:
                self._send()
                continue
            if line is not None:
                return line + b"\n"
        raise TimeoutError

    def shutdown(self, how: int) -> None:
        """End `readline` of another thread within REPEAT_S."""
        self._closed = True

    def close(self) -> None:
        """Close the socket."""
        self._closed = True
        self._socket.close()

    def _send(self) -> None:
        (frame,) = frames.split(self._line, self._head)  # requests are short
        self._socket.send(frames.encode(frame))

    def _next(self) -> bytes | None:
        """Return a line if the next frame completes one, else None."""
        data, (_, _, kind, *_) = self._socket.recvfrom(1 << 16)
        if kind == PACKET_OUTGOING:
            return None
        with contextlib.suppress(InvalidMessage):
            frame = frames.decode(data)
            expected = (self._head.target, self._head.session, frames.RESPONSE)
            if (frame.source, frame.session, frame.kind) == expected:
                return self._parts.add(frame)
        return None
