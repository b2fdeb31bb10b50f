"""Offers the reports of two synthetic traces to the collector, at multiples of the traces' rate.

The traces have approximately the mean rates of the traces in the P4/RDMA paper (section IV-A): 166 and 2,989 Mbit/s.
They consist of short TCP connections (p4/model/generated_load.py). The P4 program generates the reports, with the
paper's triggers. A replay at speed n takes 1/n of the time: reports enter a ring in memory at their times, as an RDMA
NIC would write them, and a report that is overwritten before the collector has read it is lost. Each replay is repeated
REPEATS times, because other processes on the machine interrupt the collector; every repetition counts. The gaps in the
sequence numbers that the collector finds must equal these losses.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from acapella_core.errors import UserError
from acapella_core.files import scratch_directory

from . import program
from .settings import PUBLISHED, Settings

TRACES_BPS = (166.17e6, 2989.26e6)  # section IV-A of the P4/RDMA paper
SPEEDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
BEGIN_NS, LENGTH_NS = 500_000_000, 500_000_000  # the part of the load that is the trace: handshakes take 0.2 s
PILOT_CONNECTIONS = 20_000  # connections/s of a pilot load, to determine bits per connection
RING = 4096  # reports: fewer than either trace triggers
REPEATS = 3
MAX_BATCH = 1024  # reports read at once
FRAME_BYTES = 54  # bytes of each frame in a generated load
SETTINGS = Settings(triggers=PUBLISHED)


@dataclass(frozen=True)
class Trace:
    """Reports of a trace: concatenated frames, their offsets, and their times since the trace's start."""

    name: str
    bps: float
    seconds: float
    frames: object  # uint8
    offsets: object  # uint64, one more than there are frames
    times_ns: object  # int64


def rows(seconds: float = LENGTH_NS / 1e9) -> list[dict]:
    """Return the rows of flowreport_offered for both traces at all speeds. Raises UserError."""
    with scratch_directory() as scratch:
        per_connection = wire_bits(load_records(scratch, PILOT_CONNECTIONS, seconds)) / PILOT_CONNECTIONS
        traces = [reports_of_trace(scratch, bps, round(bps * seconds / per_connection), seconds) for bps in TRACES_BPS]
    return [replayed(trace, speed) for trace in traces for speed in SPEEDS for _ in range(REPEATS)]


def load_records(directory: Path, connections: int, seconds: float):
    """Return the pcap records of a generated load of ``seconds`` that starts at BEGIN_NS."""
    import numpy as np  # noqa: PLC0415 (only here)

    path = directory / "load.pcap"
    # Connections begin during one second; the trace is a part of it.
    options = ["--connections", str(connections), "--seconds", "1", "--seed", "1", "-o", str(path)]
    generated_load = program.ROOT / "p4" / "model" / "generated_load.py"
    result = subprocess.run(
        [sys.executable, str(generated_load), *options], capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise UserError(f"{generated_load.name}: {' '.join(result.stderr.split())}")
    content = np.fromfile(path, np.uint8, offset=program.PCAP_HEADER)
    records = content.reshape(-1, program.RECORD_HEADER + FRAME_BYTES)
    times = times_of(records)
    begin = times[0] + BEGIN_NS
    return records[(times >= begin) & (times < begin + int(seconds * 1e9))]


def times_of(records):
    """Return the times of records of a nanosecond pcap, in ns."""
    fields = program.field(records, 0, "<u4"), program.field(records, 4, "<u4")
    return fields[0].astype("int64") * 10**9 + fields[1]


def wire_bits(records) -> int:
    """Return the number of bits in the frames of records, by wire length."""
    return 8 * int(program.field(records, 12, "<u4").sum(dtype="int64"))


def reports_of_trace(directory: Path, bps: float, connections: int, seconds: float) -> Trace:
    """Return the reports that the P4 program sends for a generated trace. Raises UserError."""
    import numpy as np  # noqa: PLC0415 (only here)

    records = load_records(directory, connections, seconds)
    header = (directory / "load.pcap").read_bytes()[: program.PCAP_HEADER]
    capture = directory / "trace.pcap"
    capture.write_bytes(header + records.tobytes())
    run = program.run([capture], directory, SETTINGS)
    frame = program.ROCE_HEADERS + SETTINGS.report_bytes + program.ICRC
    content = np.fromfile(run.reports, np.uint8, offset=program.PCAP_HEADER)
    reports = content.reshape(-1, program.RECORD_HEADER + frame)
    return Trace(
        f"{bps / 1e6:,.0f} Mbit/s",
        wire_bits(records) / seconds,
        seconds,
        np.ascontiguousarray(reports[:, program.RECORD_HEADER :]).reshape(-1),
        np.arange(len(reports) + 1, dtype=np.uint64) * np.uint64(frame),
        times_of(reports) - times_of(records)[0],
    )


def replayed(trace: Trace, speed: float, clock: Callable[[], float] = time.monotonic) -> dict:
    """Return a row of flowreport_offered: a trace's reports at ``speed`` times their rate. Raises UserError."""
    import numpy as np  # noqa: PLC0415 (only here)

    from acapella_core.collector import Collector, Options, QueuePair  # noqa: PLC0415 (pyarrow)

    ring, size = SETTINGS.ring, len(trace.times_ns)
    pair = QueuePair(ring.number, ring.key, ring.base, ring.slots, ring.psn)
    position = lost = 0
    with Collector([pair], Options(format=SETTINGS.report_format, series_ns=None)) as collector:
        start = clock()
        while position < size:
            now_ns = (clock() - start) * speed * 1e9
            written = int(np.searchsorted(trace.times_ns, now_ns, "right"))
            if written - position > RING:
                lost += written - RING - position
                position = written - RING
            count = min(written - position, MAX_BATCH)
            if count:
                offsets = trace.offsets[position : position + count + 1]
                collector.feed_frames(trace.frames[int(offsets[0]) : int(offsets[-1])], offsets - offsets[0])
                position += count
        seconds = clock() - start
        counters = collector.finish()
    discarded = counters["older"] + counters["repeated"]
    check(counters, size, lost)
    offered_rps = size * speed / trace.seconds
    return {
        **{"trace": trace.name, "trace_bps": trace.bps, "speed": speed},
        **{"offered_rps": offered_rps, "offered": size, "accepted": counters["taken"]},
        **{"discarded": discarded, "lost": lost, "seconds": seconds, "threads": 1},
        **{"success_share": counters["taken"] / size if size else None},
        **{"flows": counters["flows"], "report_bytes": SETTINGS.report_bytes},
    }


def check(counters: dict[str, int], size: int, lost: int) -> None:
    """Raise UserError if the collector found other losses, or a report is missing from the counts."""
    read = sum(counters[name] for name in ("taken", "older", "repeated"))
    if counters["psn_gap_lost"] != lost or read + lost != size:
        text = f"{size} reports, {read} counted, {lost} lost, {counters['psn_gap_lost']} missing sequence numbers"
        raise UserError(text, fix="report this defect")
