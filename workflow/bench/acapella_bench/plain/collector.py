"""A simple implementation of the collector in Python: python -m acapella_bench.plain.collector PATH FILE.

PATH is default (a pcap of RoCEv2 frames with reports of format 2: ICRC, flows, series), ring-series or ring
(consecutive reports of format 2, with and without series), or published-series (reports of format 1). Prints {"cpu_s",
"flows"}: seconds of CPU time from bytes to flows, and the number of flows with sums over all of them, which
native_collector also prints. The reference of the tests (acapella_testing.oracles.plain_collector) checks every field
of a report and computes all columns; this module computes the sums only, in the time that simple Python needs.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from struct import Struct, pack_into, unpack_from
from zlib import crc32

PUBLISHED = Struct(">II2HI4III4HIIQ")
TAGGED = Struct(">BBBxHH64sIIQQQQQQQIIII3QQ8x")
RECORD = Struct("<IIII")
ACK = 2
WINDOW_NS = 1_000_000_000
PCAP_HEADER, ETHERNET, HEADERS, ICRC = 24, 14, 14 + 20 + 8 + 12 + 16, 4
VARIANT = (1, 8, 10, 11, 26, 27, 32)  # bytes of the packet that are replaced by ones (IBTA annex A17)
KNOWS_IAT, KNOWS_ACK = 8, 32


def published(data: bytes, series: dict) -> list[tuple]:
    """Return the flows of reports of format 1 as (time, bytes, packets, acknowledged bytes, IAT)."""
    flows = {}
    for fields in PUBLISHED.iter_unpack(data):
        key, stamp = fields[:4], fields[17]
        size, count = min(fields[5:9]), min(fields[11:15])
        flow = flows.get(key)
        if flow is None:
            flow = flows[key] = [stamp, 0, size, 0, count, fields[15], 0, fields[16], fields[9], fields[4]]
            series[key, stamp // WINDOW_NS] = [1, size, count]
            continue
        if stamp < flow[0]:
            continue
        if size < flow[2] or count < flow[4]:
            flow[1] += flow[2]
            flow[3] += flow[4]
        flow[0], flow[2], flow[4], flow[7] = stamp, size, count, fields[16]
        if fields[10] == ACK:
            step = (fields[15] - flow[5]) & 0xFFFFFFFF
            if step < 1 << 31:
                flow[6] += step
                flow[5] = fields[15]
        flow[8] = fields[9]  # 0 means unknown
        flow[9] = fields[4] or flow[9]
        note_window(series, key, stamp, flow[1] + size, flow[3] + count)
    return [(flow[0], flow[1] + flow[2], flow[3] + flow[4], flow[6], flow[8]) for flow in flows.values()]


def note_window(series: dict, key: tuple, stamp: int, size: int, count: int) -> None:
    """Count a report in the window of its time, and set the window's counters to the flow's counters."""
    window = series.get((key, stamp // WINDOW_NS))
    if window is None:
        series[key, stamp // WINDOW_NS] = [1, size, count]
    else:
        window[0] += 1
        window[1], window[2] = size, count


def tagged(reports: Iterator[tuple], series: dict | None) -> list[tuple]:
    """Return the flows of reports of format 2 in the same form. In each epoch, the newest report counts."""
    flows = {}
    for version, ip, proto, _, valid, key, epoch, _, stamp, _, size, count, _, _, iat, first, _, ack, *_ in reports:
        if version != 2 or ip not in (4, 6):
            continue
        flow_key = (key, proto)
        flow = flows.get(flow_key)
        if flow is None:
            flow = flows[flow_key] = [stamp, 0, size, 0, count, epoch, None, 0, iat]
        else:
            if (epoch, stamp) <= (flow[5], flow[0]):
                continue
            if epoch > flow[5]:
                flow[1] += flow[2]
                flow[3] += flow[4]
                flow[5], flow[2], flow[4] = epoch, size, count
            flow[0], flow[2], flow[4] = stamp, max(size, flow[2]), max(count, flow[4])
            flow[8] = iat if valid & KNOWS_IAT else 0
        if valid & KNOWS_ACK:  # counts from the slot's first acknowledgment
            step = (ack - (first if flow[6] is None else flow[6])) & 0xFFFFFFFF
            if step < 1 << 31:
                flow[7] += step
                flow[6] = ack
        if series is not None:
            note_window(series, flow_key, stamp, flow[1] + flow[2], flow[3] + flow[4])
    return [(flow[0], flow[1] + flow[2], flow[3] + flow[4], flow[7], flow[8]) for flow in flows.values()]


def reports_of_frames(data: bytes) -> Iterator[tuple]:
    """Yield the reports of a pcap's frames whose ICRC is correct."""
    at = PCAP_HEADER
    while at < len(data):
        length = RECORD.unpack_from(data, at)[2]
        frame = data[at + RECORD.size : at + RECORD.size + length]
        at += RECORD.size + length
        if unpack_from(">H", frame, 12)[0] != 0x0800 or frame[23] != 17 or unpack_from(">H", frame, 36)[0] != 4791:
            continue
        packet = bytearray(8 + length - ETHERNET - ICRC)
        pack_into(f"8s{len(packet) - 8}s", packet, 0, b"\xff" * 8, frame[ETHERNET:-ICRC])
        for offset in VARIANT:
            packet[8 + offset] = 0xFF
        if crc32(packet) == int.from_bytes(frame[-ICRC:], "little"):
            yield TAGGED.unpack_from(frame, HEADERS)


def collect(path: str, data: bytes) -> list[tuple]:
    """Return the flows of one of the paths."""
    if path == "published-series":
        return published(data, {})
    if path == "default":
        return tagged(reports_of_frames(data), {})
    return tagged(TAGGED.iter_unpack(data), {} if path == "ring-series" else None)


def sums(flows: list[tuple[int, int, int, int, int]]) -> list[int]:
    """Return the number of flows, and sums of time, bytes, packets, acknowledged bytes and IAT."""
    return [len(flows), *(sum(column) for column in zip(*flows, strict=True))]


def main(path: str, name: str) -> None:
    """Measure one file and print the result."""
    data = Path(name).read_bytes()
    start = time.process_time()
    flows = collect(path, data)
    cpu_s = time.process_time() - start
    print(json.dumps({"cpu_s": cpu_s, "flows": sums(flows)}))


if __name__ == "__main__":
    main(*sys.argv[1:3])
