"""Reads a TCP test from a JSON document of iperf3.

Versions 3.0 to 3.20 differ in the keys that they write; the value of a missing key is None. Streams are read instead of
the sums, because 3.7 to 3.10 write the sums of the two directions of --bidir under the same key. A receiver's duration
is its end minus its start, because the key ``seconds`` of a stream is the sender's up to 3.12.

Directions refer to the data: the sender is the host that sent data, even with --reverse.
"""

import math
from dataclasses import dataclass, field

LARGEST_COUNT = 2**63 - 1
MAX_STREAMS = 1024
MAX_TEXT = 200  # maximum characters of a copied text


class Rejected(ValueError):
    """A document that is not a complete TCP test; the text is the reason."""


@dataclass
class Stream:
    """One TCP connection of a test. None: iperf3 did not report the value."""

    socket: int | None
    reverse: bool
    local_port: int | None = None
    remote_port: int | None = None
    sent_bytes: int | None = None
    sender_ns: int | None = None
    received_bytes: int | None = None
    receiver_ns: int | None = None
    retransmits: int | None = None
    rtt_min_ns: int | None = None
    rtt_mean_ns: int | None = None
    rtt_max_ns: int | None = None
    cwnd_max_bytes: int | None = None


@dataclass
class Interval:
    """One interval of a stream, with times since the start of the test."""

    stream: int
    start_ns: int
    end_ns: int
    bytes: int
    omitted: bool
    retransmits: int | None
    cwnd_bytes: int | None
    rtt_ns: int | None


@dataclass
class Test:
    """A TCP test: its parameters, streams and intervals."""

    version: str | None
    algorithm: str | None
    requested_bytes: int | None
    omit_ns: int
    mss: int | None
    streams: list[Stream] = field(default_factory=list)
    intervals: list[Interval] = field(default_factory=list)


def parse(document: dict) -> Test:
    """Return the test of a document. Raises Rejected."""
    if "error" in document:
        raise Rejected(f"iperf3 reports an error: {text(document['error']) or 'without text'}")
    start, end = mapping(document, "start"), mapping(document, "end")
    settings = mapping(start, "test_start") if "test_start" in start else {}
    protocol = text(settings.get("protocol"))
    if protocol is not None and protocol.upper() != "TCP":
        raise Rejected(f"protocol {protocol}: only TCP is supported")
    if "streams" not in end:
        raise Rejected("no results at the end of the test (end.streams is missing)")
    test = Test(
        version=(text(start.get("version")) or "").removeprefix("iperf ").strip() or None,
        algorithm=text(end.get("sender_tcp_congestion")),
        requested_bytes=whole(settings.get("bytes")) or None,
        omit_ns=nanoseconds(settings.get("omit")) or 0,
        mss=whole(start.get("tcp_mss_default")) or whole(start.get("tcp_mss")) or None,
    )
    add_streams(test, start, end, reverse=bool(whole(settings.get("reverse"))))
    add_intervals(test, document.get("intervals"))
    return test


def add_streams(test: Test, start: dict, end: dict, *, reverse: bool) -> None:
    """Add the streams of the results. Raises Rejected if there are none or too many, or one has no bytes."""
    results = mappings(end["streams"], "end.streams")
    if not 1 <= len(results) <= MAX_STREAMS:
        raise Rejected(f"{len(results)} streams: expected 1 to {MAX_STREAMS}")
    connected = {whole(each.get("socket")): each for each in mappings(start.get("connected") or [], "start.connected")}
    is_bidirectional = {side(each, "sender").get("sender") for each in results} == {True, False}  # --bidir
    for index, result in enumerate(results):
        sender, receiver = side(result, "sender"), side(result, "receiver")
        socket = whole(sender.get("socket", receiver.get("socket")))
        ports = connected.get(socket, {})
        if sender.get("bytes") is None and receiver.get("bytes") is None:
            raise Rejected(f"end.streams[{index}]: no bytes of sender or receiver")
        test.streams.append(
            Stream(
                socket=socket,
                reverse=sender.get("sender") is False if is_bidirectional else reverse,
                local_port=port(ports.get("local_port")),
                remote_port=port(ports.get("remote_port")),
                sent_bytes=whole(sender.get("bytes")),
                sender_ns=duration(sender),
                received_bytes=whole(receiver.get("bytes")),
                receiver_ns=duration(receiver),
                retransmits=whole(sender.get("retransmits")),
                rtt_min_ns=microseconds_as_ns(sender.get("min_rtt")),
                rtt_mean_ns=microseconds_as_ns(sender.get("mean_rtt")),
                rtt_max_ns=microseconds_as_ns(sender.get("max_rtt")),
                cwnd_max_bytes=whole(sender.get("max_snd_cwnd")) or None,
            )
        )


def add_intervals(test: Test, intervals: object) -> None:
    """Add the intervals whose stream is known and whose times and bytes are numbers."""
    indices = {stream.socket: index for index, stream in enumerate(test.streams)}
    for interval in intervals if isinstance(intervals, list) else []:
        streams = interval.get("streams") if isinstance(interval, dict) else None
        for each in streams if isinstance(streams, list) else []:
            if not isinstance(each, dict):
                continue
            index = indices.get(whole(each.get("socket")))
            start, end = nanoseconds(each.get("start")), nanoseconds(each.get("end"))
            sent = whole(each.get("bytes"))
            if index is None or start is None or end is None or sent is None:
                continue
            test.intervals.append(
                Interval(
                    *(index, start, end, sent, each.get("omitted") is True, whole(each.get("retransmits"))),
                    *(whole(each.get("snd_cwnd")) or None, microseconds_as_ns(each.get("rtt"))),
                )
            )


def mapping(parent: dict, key: str) -> dict:
    """Return the object under a key of a JSON object. Raises Rejected if it is missing or not an object."""
    found = parent.get(key)
    if not isinstance(found, dict):
        raise Rejected(f"{key} is missing" if found is None else f"{key} is not an object")
    return found


def mappings(value: object, name: str) -> list[dict]:
    """Return a value that has to be a list of objects. Raises Rejected if it is not."""
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise Rejected(f"{name} is not a list of objects")
    return value


def side(result: dict, name: str) -> dict:
    """Return the values of a stream's sender or receiver; an empty dict if they are missing."""
    found = result.get(name)
    return found if isinstance(found, dict) else {}


def whole(value: object) -> int | None:
    """Return a count from 0 to 2^63 - 1. None for any other value: iperf3 writes -1 for some unknown values."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float):
        if not math.isfinite(value) or value != int(value):
            return None
        value = int(value)
    return value if 0 <= value <= LARGEST_COUNT else None


def nanoseconds(seconds: object) -> int | None:
    """Return a time in seconds as whole nanoseconds; None if it is negative, too long or not a number."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < LARGEST_COUNT / 10**9:
        return None
    return round(seconds * 10**9)


def microseconds_as_ns(value: object) -> int | None:
    """Return a time in microseconds as nanoseconds. None for 0, which iperf3 writes if the time is unknown."""
    found = whole(value)
    return found * 1000 if found and found <= LARGEST_COUNT // 1000 else None


def duration(values: dict) -> int | None:
    """Return the duration of a sender or receiver; None if it is unknown or 0."""
    start, end = nanoseconds(values.get("start")), nanoseconds(values.get("end"))
    if start is not None and end is not None and end > start:
        return end - start
    return nanoseconds(values.get("seconds")) or None


def port(value: object) -> int | None:
    """Return a port number, or None."""
    found = whole(value)
    return found if found is not None and found <= 65535 else None


def text(value: object) -> str | None:
    """Return a text on one line, shortened, without lone surrogates; None if the value is not a text."""
    if not isinstance(value, str):
        return None
    return " ".join(value[: 2 * MAX_TEXT].split())[:MAX_TEXT].encode("utf-8", "replace").decode()
