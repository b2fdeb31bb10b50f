"""Measures the creation of transfer tables from many imported iperf3 files."""

import json
from pathlib import Path

from .programs import Bench, acapella

FILE_BYTES = 100_000
STREAM = {
    **{"socket": 5, "start": 0, "end": 1.000190, "seconds": 1.0001900196075439, "bytes": 5524120},
    **{"bits_per_second": 44184564.0664766, "retransmits": 8604, "snd_cwnd": 43440, "snd_wnd": 694272, "rtt": 2454},
    **{"rttvar": 1081, "pmtu": 1500, "omitted": False, "sender": True},
}
SUM = {name: STREAM[name] for name in ("start", "end", "seconds", "bytes", "bits_per_second", "retransmits", "sender")}
GOAL = "< 60 for 10,000 files of 100 kB, 2 cores"


def run(bench: Bench) -> list[dict]:
    """Return the time from files to tables. Writing the files is not measured."""
    files = bench.scale["iperf3_files"]
    data, campaign = bench.directory / "iperf3", bench.directory / "transfers"
    data.mkdir(exist_ok=True)
    campaign.mkdir(exist_ok=True)
    write_files(data, files)
    words = acapella("campaign", "transfers", campaign, "--data", f"{data}/*.json", "--name-pattern", PATTERN)
    run_ = bench.measure(words, any_core=True)
    return [
        {"measured": "files", "value": files, "unit": "files", "note": f"of {FILE_BYTES:,} B"},
        {"measured": "tables", "value": run_.wall_s, "unit": "s", "goal": GOAL},
        {"measured": "tables, CPU time", "value": run_.cpu_s, "unit": "s"},
        {"measured": "tables, peak memory", "value": run_.peak_mib, "unit": "MiB"},
    ]


PATTERN = r"(?P<delay_ms>\d+)-(?P<run>\d+)-(?P<algorithm>\w+)\.json"


def write_files(data: Path, files: int) -> None:
    """Write files with the layout of iperf3 3.12, which differ only in their names."""
    end = {"sender": STREAM, "receiver": STREAM}
    test = {
        "start": {"version": "iperf 3.12", "connected": [{"socket": 5}], "test_start": {"protocol": "TCP"}},
        "intervals": [],
        "end": {"streams": [end], "sender_tcp_congestion": "bbr"},
    }
    interval = {"streams": [STREAM], "sum": SUM}
    interval_bytes = len(json.dumps({"intervals": [interval, interval]}, indent="\t")) - len(
        json.dumps({"intervals": [interval]}, indent="\t")
    )
    test["intervals"] = [interval] * (FILE_BYTES // interval_bytes)
    text = json.dumps(test, indent="\t")
    for number in range(files):
        name = f"{number // 20}-{number % 10}-{('bbr', 'cubic')[number // 10 % 2]}.json"
        (data / name).write_text(text, encoding="utf-8")
