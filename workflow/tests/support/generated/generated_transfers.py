"""Synthetic documents of iperf3, and campaigns with cell directories, for tests of transfer experiments.

The layout is that of real files of 3.12 (workflow/tests/transfer/iperf3/3.12-*.json), without snd_wnd and pmtu. Older
and newer layouts are constructed from iperf3's release notes: versions before 3.7 have no key ``sender``.
"""

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from acapella_testing.new_files import new_directory

from .generated_wire import CLIENT, SERVER, Capture

MSS = 1448


@dataclass(frozen=True)
class Sent:
    """Results of one stream."""

    sent: int = 10_000_000
    received: int | None = 9_000_000
    seconds: float = 2.0
    receiver_seconds: float = 2.25
    retransmits: int = 0
    rtt_us: int = 60_000


def document(  # noqa: PLR0913
    *streams: Sent,
    version: str = "3.12",
    algorithm: str = "cubic",
    reverse: bool = False,
    intervals: int = 2,
    omitted: int = 0,
    size: int = 10_000_000,
    captured: int | None = None,
) -> dict:
    """Return a complete document. Bytes are divided equally among ``intervals``; the first ``omitted`` are omitted.

    The first stream has the ports of flow ``captured`` of a Capture.
    """
    streams = streams or (Sent(),)
    connected = [] if captured is None else [{"local_port": CLIENT, "remote_port": SERVER + captured}]
    numbers = [5 + 2 * place for place in range(len(streams))]
    ends = {"local_host": "10.0.0.1", "remote_host": "10.0.0.2", "remote_port": 5201}
    test = {"protocol": "TCP", "num_streams": len(streams), "blksize": 131072, "omit": omitted, "duration": 0}
    test |= {"bytes": size, "blocks": 0, "reverse": int(reverse)}
    mark = {} if tuple(map(int, version.split("."))) < (3, 7) else {"sender": not reverse}
    numbered, counts = [*zip(numbers, streams, strict=True)], (intervals, omitted)
    return {
        "start": {
            "connected": [
                {"socket": n, "local_port": 40_000 + n, **ends, **own}
                for n, own in itertools.zip_longest(numbers, connected, fillvalue={})
            ],
            **{"version": f"iperf {version}", "system_info": "Linux h1", "tcp_mss_default": MSS, "test_start": test},
            "timestamp": {"time": "Thu, 01 Jan 2026 00:00:00 GMT", "timesecs": 1767225600},
        },
        "intervals": [
            {"streams": [interval(n, s, place, counts, mark) for n, s in numbered]} for place in range(intervals)
        ],
        "end": {
            "streams": [result(n, s, mark) for n, s in numbered],
            "cpu_utilization_percent": {"host_total": 1.0},
            **dict.fromkeys(("sender_tcp_congestion", "receiver_tcp_congestion"), algorithm),
            **sums(streams, mark),
        },
    }


def interval(number: int, sent: Sent, place: int, counts: tuple[int, int], mark: dict) -> dict:
    """Return a stream of an interval. ``counts``: the numbers of all intervals and of omitted ones."""
    intervals, omitted = counts
    step = sent.seconds / intervals
    size = sent.sent * (place + 1) // intervals - sent.sent * place // intervals
    return {
        **{"socket": number, "start": place * step, "end": (place + 1) * step, "seconds": step, "bytes": size},
        **{"bits_per_second": 8 * size / step, "retransmits": sent.retransmits if place == intervals - 1 else 0},
        **{"snd_cwnd": 10 * MSS, "rtt": sent.rtt_us, "rttvar": 100, "omitted": place < omitted, **mark},
    }


def result(number: int, sent: Sent, mark: dict) -> dict:
    """Return a stream of the results. Up to 3.12, a receiver's ``seconds`` are the sender's."""
    sender = {
        **{"socket": number, "start": 0, "end": sent.seconds, "seconds": sent.seconds, "bytes": sent.sent},
        **{"bits_per_second": 8 * sent.sent / sent.seconds, "retransmits": sent.retransmits},
        **{"max_snd_cwnd": 10 * MSS, "max_rtt": 2 * sent.rtt_us, "min_rtt": sent.rtt_us // 2, "mean_rtt": sent.rtt_us},
        **mark,
    }
    if sent.received is None:
        return {"sender": sender}
    receiver = {"socket": number, "start": 0, "end": sent.receiver_seconds, "seconds": sent.seconds}
    receiver |= {"bytes": sent.received, "bits_per_second": 8 * sent.received / sent.receiver_seconds, **mark}
    return {"sender": sender, "receiver": receiver}


def sums(streams: Sequence[Sent], mark: dict) -> dict:
    """Return the sums of the results."""
    sent, received = sum(each.sent for each in streams), sum(each.received or 0 for each in streams)
    longest, last = max(each.seconds for each in streams), max(each.receiver_seconds for each in streams)
    retransmits = sum(each.retransmits for each in streams)
    return {
        "sum_sent": {"start": 0, "end": longest, "seconds": longest, "bytes": sent, "retransmits": retransmits, **mark},
        "sum_received": {"start": 0, "end": last, "seconds": last, "bytes": received, **mark},
    }


def cell(directory: Path, name: str, documents: Sequence[dict], **more) -> Path:
    """Write a cell directory with one iperf3 file per document; ``more`` replaces keys of cell.json."""
    path = new_directory(directory / "transfers" / name)
    settings = {"algorithm": "cubic", "delay_ms": 60, "buffer_bytes": 102_400, "rate_bps": 40_000_000, "streams": 1}
    settings |= {"size_bytes": 10_000_000, "ratio": None, "delay_on": "return", "loss_percent": 0, "reorder_percent": 0}
    flows = more.pop("flows", [{}] * len(documents))
    content = {
        **{"version": 1, "cell_id": name, "run": 0, "mode": "clean", "topology": "linear"},
        "settings": settings | more.pop("settings", {}),
        "measured": {"rtt_base_ns": 100_000, "rtt_ns": 60_000_000, "rate_bps": 40_000_000, "buffer_bytes": 102_400},
        "flags": [],
        "environment": {"kernel": "6.1", "bbr_version": "1"},
        "flows": [{"flow": n, "iperf3": f"iperf3-{n}.json", "path": None} | own for n, own in enumerate(flows)],
        **{"tcp_info": [], "wire": None, "error": None},
        **more,
    }
    for number, each in enumerate(documents):
        (path / f"iperf3-{number}.json").write_text(json.dumps(each, indent="\t"))
    (path / "cell.json").write_text(json.dumps(content))
    return path


def grid(directory: Path, delays=(0, 60, 240), buffers=(102_400, 1_048_576, 10_485_760), repeated: int = 3) -> None:
    """Write a grid of delays and buffers for both algorithms. The first settings have ``repeated`` runs.

    BBR is faster with small buffers, CUBIC with large ones, the more so the larger the delay. One run of
    CUBIC has a flag.
    """
    for place, (delay, buffer) in enumerate(itertools.product(delays, buffers)):
        for algorithm in ("bbr", "cubic"):
            for run in range(repeated if place == 0 else 1):
                small, bbr = buffer < 500_000, algorithm == "bbr"
                factor = 1.0 if bbr else (0.45 if small else 1.0 + delay / 1200)
                seconds = 80.0 / ((38.0 - delay / 20 + run) * factor)
                resent = (9000 if small else 40) * (2 if bbr else 1)
                sent = Sent(10_000_000, 10_000_000, seconds, seconds, resent, 1000 * (delay + 1))
                more = {"measured": {"rtt_ns": 10**6 * (delay + 1), "rate_bps": 40_000_000, "buffer_bytes": buffer}}
                more |= {"flags": ["rate_off"] if place == 4 and algorithm == "cubic" else []}
                more |= {"settings": {"algorithm": algorithm, "delay_ms": delay, "buffer_bytes": buffer}}
                name, documents = f"{algorithm}-{delay}-{buffer}", [document(sent, algorithm=algorithm)]
                cell(directory, f"{name}-{run}", documents, cell_id=name, run=run, **more)


def captured(directory: Path, delays=(20, 60), buffers=(102_400, 1_048_576, 2_097_152)) -> None:
    """Write a grid with captures: 100 segments whose round-trip times grow from 20 ms, faster with larger buffers.

    iperf3 agrees with the wire for BBR. For CUBIC it counts headers with the smallest buffer; with a larger one and the
    largest delay it differs without a cause.
    """
    for delay, buffer, algorithm in itertools.product(delays, buffers, ("bbr", "cubic")):
        sent = 100_000
        if algorithm == "cubic":
            sent = 105_200 if buffer == buffers[0] else 200_000 if delay == delays[-1] else sent
        step = buffer / 10**7 * (1 if algorithm == "cubic" else 0.5)  # ms
        report = document(Sent(sent, sent, 1.0, 1.01 + 99 * step / 1000, 0), algorithm=algorithm, captured=0)
        settings, name = {"algorithm": algorithm, "delay_ms": delay, "buffer_bytes": buffer}, "wire.parquet"
        flows = [{"size_bytes": 100_000}]
        path = cell(directory, f"{algorithm}-{delay}-{buffer}", [report], settings=settings, wire=name, flows=flows)
        capture = Capture()
        for place in range(100):
            capture.send(100 + 10 * place, place)
            capture.acknowledge(120 + 10 * place + place * step, place + 1)
        capture.in_order().write(path)


def stream_grid(directory: Path, counts=(1, 2, 5, 10, 20, 40), sizes=(2**30, 5 * 2**30), repeated: int = 2) -> None:
    """Write cells with several parallel streams: throughput grows until the link is full, more slowly with CUBIC."""
    for count, size, (algorithm, single) in itertools.product(counts, sizes, (("bbr", 12.0), ("cubic", 8.0))):
        name = f"{algorithm}-{count}-{size}"
        settings = {"algorithm": algorithm, "streams": count, "size_bytes": size, "rate_bps": 200_000_000}
        for run in range(repeated):
            seconds = 8 * size / 1e6 / (min(200.0, single * count) * (1 + 0.04 * run))
            streams = [Sent(size // count, size // count, seconds, seconds, 10, 60_000)] * count
            documents = [document(*streams, algorithm=algorithm, size=size)]
            cell(directory, f"{name}-{run}", documents, cell_id=name, run=run, settings=settings)


OTHER_LINKS = {"access1": "h1-r1", "up1": "r1-r2", "up2": "r2-r3", "up3": "r1-r3", "down1": "r4-r5", "access2": "r5-h2"}
LINKS = {  # links in the paper's figure 8: R3-R4 is l1, R1-R5 is l2
    "l1": {"between": ["r3", "r4"], "emulated": True},
    "l2": {"between": ["r1", "r5"], "emulated": True},
    **{n: {"between": e.split("-"), "emulated": False, "rate_bps": None} for n, e in OTHER_LINKS.items()},
}
PATHS = {
    "red": ["h1", "r1", "r2", "r3", "r4", "r5", "h2"],
    "green": ["h1", "r1", "r3", "r4", "r5", "h2"],
    "blue": ["h1", "r1", "r5", "h2"],
}


def multipath(directory: Path, ratios=(0.5, 1.0, 2.0), total_mbps: int = 30) -> None:
    """Write a cell per ratio: six flows round robin over three paths, with times close to the fluid model."""
    size = 5_000_000
    for ratio in ratios:
        rates = {"l1": total_mbps * ratio / (1 + ratio), "l2": total_mbps / (1 + ratio)}
        links = LINKS | {name: LINKS[name] | {"rate_bps": round(rate * 10**6)} for name, rate in rates.items()}
        flows, documents = [], []
        for number in range(6):
            path = list(PATHS)[number % 3]
            rate = rates["l2"] / 2 if path == "blue" else rates["l1"] / 4
            seconds = 8 * size / (rate * 1e6 * MSS / (MSS + 66)) * (1 + 0.01 * number)
            sent = Sent(size, size, seconds, seconds, 20 + number)
            documents.append(document(sent, intervals=max(2, round(seconds)), size=size))
            start = {"started_ns": 10**18 + number * 1000, "start_error_ns": 1000}
            flows.append({"path": path, "size_bytes": size, **start})
        settings = {"ratio": ratio, "streams": 6, "size_bytes": size, "rate_bps": None, "buffer_bytes": None}
        more = {"topology": "multipath", "settings": settings, "links": links, "paths": PATHS, "flows": flows}
        cell(directory, f"ratio-{ratio}", documents, **more)
