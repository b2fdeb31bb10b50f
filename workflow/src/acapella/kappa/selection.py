"""Which packets take part: a display filter, a flow, a span of time, in the words of the command line."""

import ipaddress
import re
from datetime import UTC, datetime

from acapella.common import tshark
from acapella.common.quantities import LARGEST, duration_ns, whole
from acapella_core.errors import UserError

STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?", re.ASCII)
PROTOCOLS = {"icmp": 1, "tcp": 6, "udp": 17, "sctp": 132}
END = re.compile(r"\[([^\]]+)\](?::(\d{1,9}))?|([^:\[\]]+)(?::(\d{1,9}))?|([0-9a-fA-F:.]+)", re.ASCII)


def window_ns(text: str) -> int:
    """The length of a window, 1 ns or more. Raises UserError."""
    length = duration_ns(text)
    if length < 1:
        raise UserError("a window lasts 1 ns or more", where=f"--window {text}", fix="write 10ms or 1s")
    return length


def stamp_ns(text: str) -> int | None:
    """Nanoseconds since 1970-01-01 UTC of an ISO time, UTC where it names no zone; None for anything else."""
    found = STAMP.fullmatch(text.strip())
    if not found:
        return None
    day, clock, fraction, zone = found.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{zone or '+00:00'}".replace("Z", "+00:00"))
    except ValueError as error:
        raise UserError(f"{text!r} is not a time: {error}") from error
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    stamp = (since.days * 86_400 + since.seconds) * 10**9 + int((fraction or "").ljust(9, "0"))
    if abs(stamp) > LARGEST:
        raise UserError(f"{text!r} is out of range", fix="a time is from 1677-09-22 to 2262-04-11")
    return stamp


def span(begin: str | None, end: str | None) -> tuple[int | None, int | None, bool]:
    """(from, to, relative) in ns: both ISO times, or both counted from each trial's first packet. Raises UserError."""
    absolute = [stamp_ns(text) for text in (begin, end) if text is not None]
    relative = None in absolute
    if relative and any(ns is not None for ns in absolute):
        raise UserError(
            "--from and --to are both ISO times, or both count from the trial's start", where=f"{begin} {end}"
        )
    read = duration_ns if relative else stamp_ns
    from_ns, to_ns = (None if text is None else read(text) for text in (begin, end))
    if from_ns is not None and to_ns is not None and to_ns <= from_ns:
        raise UserError("--to has to be later than --from", where=f"{begin} {end}")
    return from_ns, to_ns, relative


def flow(text: str | None) -> tuple | None:
    """``SRC[:PORT],DST[:PORT][,PROTOCOL]`` as (protocol, src, src port, dst, dst port). Raises UserError."""
    if text is None:
        return None
    ends = [part.strip() for part in text.split(",")]
    if len(ends) not in (2, 3):
        raise UserError(f"{text!r} is not a flow", fix="write SRC[:PORT],DST[:PORT][,PROTOCOL], IPv6 with port in [ ]")
    src, dst = (end_of_flow(end) for end in ends[:2])
    if ipaddress.ip_address(src[0]).version != ipaddress.ip_address(dst[0]).version:
        raise UserError("both ends of a flow are of one IP version", where=text)
    return (protocol(ends[2]) if len(ends) == 3 else None, *src, *dst)


def end_of_flow(text: str) -> tuple[str, int | None]:
    """Address and port of one end."""
    found = END.fullmatch(text)
    address = port = None
    if found:
        address, port = found[1] or found[3] or found[5], found[2] or found[4]
    try:
        address = str(ipaddress.ip_address(address))
    except ValueError as error:
        raise UserError(f"{text!r} is not an address, or an address and a port") from error
    if port is not None and int(port) > 0xFFFF:
        raise UserError(f"there is no port {port}", where=text)
    return address, None if port is None else int(port)


def protocol(text: str) -> int:
    """An IP protocol by name or number."""
    if text.lower() in PROTOCOLS:
        return PROTOCOLS[text.lower()]
    return whole(text, 0, 255, f"an IP protocol ({', '.join(PROTOCOLS)})")


def filtered(display_filter: str, paths: list[str], limits=None) -> tuple[dict, str]:
    """For each file the numbers (from 1) of the frames that the filter shows, uint64, and tshark's version.

    ``limits``: on decompression, as for the core. Raises UserError where there is no tshark, or in its own words
    where it does not take the filter.
    """
    import numpy as np  # noqa: PLC0415 - without a filter the start stays quick

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
