"""Evaluates the options that select packets: a display filter, a flow, a time range."""

import ipaddress
import re
from datetime import UTC, datetime

from acapella.common import tshark
from acapella.common.quantities import MAX_NS, duration_ns, whole_number
from acapella_core.errors import UserError

ISO_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?", re.ASCII)
PROTOCOLS = {"icmp": 1, "tcp": 6, "udp": 17, "sctp": 132}
ENDPOINT = re.compile(r"\[([^\]]+)\](?::(\d{1,9}))?|([^:\[\]]+)(?::(\d{1,9}))?|([0-9a-fA-F:.]+)", re.ASCII)


def window_ns(text: str) -> int:
    """Return the length of a window, at least 1 ns. Raises UserError."""
    length = duration_ns(text)
    if length < 1:
        raise UserError("a window must be 1 ns or longer", where=f"--window {text}", fix="write 10ms or 1s")
    return length


def iso_time_ns(text: str) -> int | None:
    """Return an ISO time (UTC if it has no zone) in ns since 1970-01-01 UTC; None if the text is not an ISO time.

    Raises UserError if the date or time does not exist or is out of range.
    """
    match = ISO_TIME.fullmatch(text.strip())
    if not match:
        return None
    day, clock, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{zone or '+00:00'}".replace("Z", "+00:00"))
    except ValueError as error:
        raise UserError(f"{text!r} is not a time: {error}") from error
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    stamp = (since.days * 86_400 + since.seconds) * 10**9 + int((fraction or "").ljust(9, "0"))
    if abs(stamp) > MAX_NS:
        raise UserError(f"{text!r} is out of range", fix="use a time from 1677-09-22 to 2262-04-11")
    return stamp


def span(begin: str | None, end: str | None) -> tuple[int | None, int | None, bool]:
    """Return (from, to, relative) in ns: both ISO times, or both relative to each trial's first packet.

    Raises UserError.
    """
    absolute = [iso_time_ns(text) for text in (begin, end) if text is not None]
    relative = None in absolute
    if relative and any(ns is not None for ns in absolute):
        raise UserError(
            "--from and --to must both be ISO times, or both be relative to the trial's start", where=f"{begin} {end}"
        )
    read = duration_ns if relative else iso_time_ns
    from_ns, to_ns = (None if text is None else read(text) for text in (begin, end))
    if from_ns is not None and to_ns is not None and to_ns <= from_ns:
        raise UserError("--to must be later than --from", where=f"{begin} {end}")
    return from_ns, to_ns, relative


def flow(text: str | None) -> tuple | None:
    """Return ``SRC[:PORT],DST[:PORT][,PROTOCOL]`` as (protocol, src, src port, dst, dst port). Raises UserError."""
    if text is None:
        return None
    ends = [part.strip() for part in text.split(",")]
    if len(ends) not in (2, 3):
        raise UserError(f"{text!r} is not a flow", fix="write SRC[:PORT],DST[:PORT][,PROTOCOL]; IPv6 as [ADDRESS]:PORT")
    src, dst = (endpoint(end) for end in ends[:2])
    if ipaddress.ip_address(src[0]).version != ipaddress.ip_address(dst[0]).version:
        raise UserError("source and destination have different IP versions", where=text)
    return (protocol(ends[2]) if len(ends) == 3 else None, *src, *dst)


def endpoint(text: str) -> tuple[str, int | None]:
    """Return the address and port of one endpoint."""
    match = ENDPOINT.fullmatch(text)
    address = port = None
    if match:
        address, port = match[1] or match[3] or match[5], match[2] or match[4]
    try:
        address = str(ipaddress.ip_address(address))
    except ValueError as error:
        raise UserError(f"{text!r} is not an address, or an address and a port") from error
    if port is not None and int(port) > 0xFFFF:
        raise UserError(f"port {port} is larger than 65535", where=text)
    return address, None if port is None else int(port)


def protocol(text: str) -> int:
    """Return an IP protocol number, by name or number."""
    if text.lower() in PROTOCOLS:
        return PROTOCOLS[text.lower()]
    try:
        return whole_number(text, 0, 255, "--flow")
    except UserError as error:
        fix = f"write a whole number from 0 to 255, or {', '.join(PROTOCOLS)}"
        raise UserError(f"{text!r} is not an IP protocol", fix=fix) from error


def matching_frames(display_filter: str, paths: list[str], limits=None) -> tuple[dict, str]:
    """Return, for each file, the numbers (from 1) of the frames that match the filter, as uint64, and tshark's version.

    ``limits``: decompression limits. Raises UserError if tshark is missing, or with tshark's message if it rejects the
    filter.
    """
    import numpy as np  # noqa: PLC0415 - keeps startup fast without a filter

    program = tshark.find()
    frames = {}
    for path in dict.fromkeys(paths):
        with program.start(path, ("frame.number",), display_filter=display_filter, limits=limits) as run:
            numbers = [np.array(lines.split(), dtype=np.uint64) for lines in run.lines()]
            frames[path] = np.concatenate(numbers) if numbers else np.empty(0, dtype=np.uint64)
            try:
                run.finish(cut_allowed=True)
            except UserError as error:
                raise UserError(str(error), where=f"--filter {display_filter!r}") from error
    return frames, program.version
