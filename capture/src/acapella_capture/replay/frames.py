"""Lines of the control channel in Ethernet frames, for a controller on the data path of a bridge.

A frame has the EtherType 0x88B5, which is for local experiments (IEEE 802, section 9.2.3). The following fields are
big-endian:

    magic (8 bytes)  session (8)  number (4)  kind (1)  part (1)  parts (1)  0 (1)  length (2)  text (length)

A line of the channel (channel.py) is the text of one frame, or of several in the order of ``part``; its newline is not
sent. The kind is REQUEST or RESPONSE. ``session`` is a random number of the controller, which opens it with a REQUEST
without text. ``number`` counts the controller's lines in a session from 0, which is the opening; a response has the
number of the line that it answers. The frame is padded to the minimum length of Ethernet. Frames are not protected; the
lines in them are authenticated.
"""

import struct
from dataclasses import dataclass, replace

from acapella_core.control_lines import InvalidMessage

ETHER_TYPE = 0x88B5
MAGIC = b"ACAPctl2"  # as INBAND_MAGIC of capture/replay/src/engine/inband.h
REQUEST, RESPONSE = 1, 2
HEADER = struct.Struct(">6s6sH8sQIBBBBH")
MIN_FRAME_BYTES = 60  # minimum length of a frame without FCS
TEXT_BYTES = 1_514 - HEADER.size  # at an MTU of 1500
MAX_PARTS = 96  # a line of channel.MAX_RESPONSE_BYTES has 89


@dataclass(frozen=True)
class Frame:
    """A frame with a line or a part of it. ``target`` and ``source`` are MAC addresses."""

    target: bytes
    source: bytes
    session: int
    kind: int
    text: bytes = b""
    part: int = 0
    parts: int = 1
    number: int = 0


def encode(frame: Frame) -> bytes:
    """Return the bytes of a frame."""
    header = HEADER.pack(
        frame.target,
        frame.source,
        ETHER_TYPE,
        MAGIC,
        frame.session,
        frame.number,
        frame.kind,
        frame.part,
        frame.parts,
        0,
        len(frame.text),
    )
    return (header + frame.text).ljust(MIN_FRAME_BYTES, b"\0")


def decode(data: bytes) -> Frame:
    """Return a frame of the control channel. Raises InvalidMessage."""
    if len(data) < HEADER.size:
        raise InvalidMessage("frame too short")
    target, source, ether_type, magic, session, number, kind, part, parts, zero, length = HEADER.unpack_from(data)
    text = data[HEADER.size : HEADER.size + length]
    if (ether_type, magic, zero) != (ETHER_TYPE, MAGIC, 0) or kind not in (REQUEST, RESPONSE):
        raise InvalidMessage("not a frame of the control channel")
    if len(text) < length or length > TEXT_BYTES or not part < parts <= MAX_PARTS or b"\n" in text:
        raise InvalidMessage("malformed frame")
    return Frame(target, source, session, kind, text, part, parts, number)


def split(line: bytes, head: Frame) -> list[Frame]:
    """Return the frames of a line without its newline, with the addresses, session, kind and number of ``head``."""
    texts = [line[at : at + TEXT_BYTES] for at in range(0, len(line), TEXT_BYTES)] or [b""]
    return [replace(head, text=text, part=part, parts=len(texts)) for part, text in enumerate(texts)]


class Assembly:
    """Joins the parts of the response to one line of the controller.

    Parts of other responses, such as a late duplicate, and parts that arrive after the response is complete are
    ignored. A part that contradicts the known ones restarts the response.
    """

    def __init__(self) -> None:
        self.expect(0)

    def expect(self, number: int) -> None:
        """Begin the response to a new line."""
        self._number = number
        self._texts: dict[int, bytes] = {}
        self._parts = 0
        self._complete = False

    def add(self, frame: Frame) -> bytes | None:
        """Add a part; return the line once it is complete, else None."""
        if frame.number != self._number or self._complete:
            return None
        if frame.parts != self._parts or self._texts.get(frame.part, frame.text) != frame.text:
            self._texts, self._parts = {}, frame.parts
        self._texts[frame.part] = frame.text
        if len(self._texts) < self._parts:
            return None
        self._complete = True
        return b"".join(self._texts[part] for part in range(self._parts))


def mac_text(mac: bytes) -> str:
    """Return a MAC address as text."""
    return mac.hex(":")
