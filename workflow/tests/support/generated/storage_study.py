"""A synthetic storage study, and a campaign with its tables."""

from pathlib import Path

from acapella_testing.new_files import write_json

from acapella.campaign import storage
from acapella.cli import main as cli

MEMORY = 1_000_000
RUN = {
    **{"background_percent": 10, "limit_percent": 20, "disk_mbps": 20, "writer": "buffered", "call": "writev"},
    **{"memory_bytes": MEMORY, "offered": 1000, "written": 900, "lost": 100, "written_bytes": 250_000},
    **{"missed_bytes": 0, "skipped_events": 0, "lost_messages": 0},
    "offered_ns": 2_000_000_000,
    "intervals": [
        {
            **{"at_ns": 5_000_000_000, "calls": 3, "bytes": 100_000, "latency_ns": 50_000, "longest_ns": 30_000},
            "buckets": [[8192, 16383, 2], [16384, 32767, 1]],
            **{"dirty_bytes": 90_000, "writeback_bytes": 5_000, "background_bytes": 100_000, "limit_bytes": 200_000},
        },
        {
            **{"at_ns": 6_500_000_000, "calls": 1, "bytes": 150_000},
            **{"latency_ns": 900_000_000, "longest_ns": 900_000_000, "buckets": [[536870912, 1073741823, 1]]},
            **{"dirty_bytes": 100_000, "writeback_bytes": 50_000, "background_bytes": 100_000, "limit_bytes": 200_000},
        },
    ],
}


def study(*runs: dict, skipped: str | None = None) -> dict:
    empty = {"notes": [], "machine": {}, "settings": {}}
    return {"version": storage.VERSION, "skipped": skipped, "runs": list(runs), **empty}


def campaign(directory: Path, results: dict) -> Path:
    """Write the results of a study and the storage tables; return the campaign's directory."""
    write_json(directory / "storage" / "study.json", results)
    assert cli.main(["campaign", "storage", str(directory)]) == 0
    return directory


def rate(snaplen: int, size: int, offered: int, lost: int, wanted: float | None) -> dict:
    """Return a run of the writer for one second."""
    return {
        **{"snaplen": snaplen, "frame_bytes": size, "writer": "direct", "cores": 1, "wanted_fps": wanted},
        **{"offered": offered, "written": offered - lost, "lost": lost, "offered_ns": 10**9, "whole_ns": 2 * 10**9},
    }
