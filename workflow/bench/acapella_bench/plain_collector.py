"""The collector as one would write it in an afternoon: python -m acapella_bench.plain_collector REPORTS.

For 64-byte reports one behind the other. Prints {"cpu_s", "flows"}: seconds of CPU time from bytes to flows, and the
number of flows with sums over all of them, which native_collector has as well.
"""

import json
import sys
import time
from pathlib import Path
from struct import Struct

REPORT = Struct(">II2HI4III4HIIQ")
ACK = 2


def collect(data: bytes) -> dict:
    """{key: [time, bytes before, bytes, packets before, packets, ack, acknowledged, seq, iat, rtt]}."""
    flows = {}
    for fields in REPORT.iter_unpack(data):
        key, stamp = fields[:4], fields[17]
        size, count = min(fields[5:9]), min(fields[11:15])
        flow = flows.get(key)
        if flow is None:
            flow = flows[key] = [stamp, 0, size, 0, count, fields[15], 0, fields[16], fields[9], fields[4]]
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
        flow[8] = fields[9] or flow[8]
        flow[9] = fields[4] or flow[9]
    return flows


def sums(flows: list[tuple[int, int, int, int, int]]) -> list[int]:
    """How many flows, and sums of time, bytes, packets, acknowledged bytes, IAT."""
    return [len(flows), *(sum(column) for column in zip(*flows, strict=True))]


def main(path: str) -> None:
    """Measure one file."""
    data = Path(path).read_bytes()
    start = time.process_time()
    flows = collect(data)
    cpu_s = time.process_time() - start
    rows = [(flow[0], flow[1] + flow[2], flow[3] + flow[4], flow[6], flow[8]) for flow in flows.values()]
    print(json.dumps({"cpu_s": cpu_s, "flows": sums(rows)}))


if __name__ == "__main__":
    main(sys.argv[1])
