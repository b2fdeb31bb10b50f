"""Create the tables of the storage study: how long writes waited while the page cache filled (Patchwork, appendix B).

    acapella measure storage -o results/study/storage/study.json
    acapella campaign storage results/study

Reads storage/study.json of a campaign (written by `acapella measure storage`), and writes tables/storage_runs,
storage_growth, storage_latency and storage_rates as CSV and Parquet. If nothing could be measured, the tables are
empty, and the reason is printed.
"""

import json
from itertools import accumulate
from pathlib import Path

from acapella.common import tables
from acapella_core import names
from acapella_core.errors import UserError

from . import layout as campaigns

TABLES = ("storage_runs", "storage_growth", "storage_latency", "storage_rates")
AVERAGE_SHARE = 0.95  # quantile of the calls of a run; the average case ends with the power of two that contains it
VERSION = 2  # version of study.json
PRODUCER = "acapella measure storage -o"


def register_parser(subparsers):
    """Add `acapella campaign storage`."""
    parser = subparsers.add_parser("storage", help="create the tables of the storage study", description=__doc__)
    parser.add_argument("campaign", metavar="CAMPAIGN", help="directory results/<campaign>")
    return parser


def run(args) -> None:
    """Write the tables. Raises UserError if there is no study."""
    campaign = campaigns.open_campaign(args.campaign)
    study = read(campaign)
    if study["skipped"]:
        names.report(f"storage: nothing was measured: {study['skipped']}")
    for name, rows in rows_of(study).items():
        tables.write_rows(rows, name, lambda suffix, name=name: campaign.table(name, suffix))
        names.report(f"storage: tables/{name}: {names.pluralize(len(rows), 'row')}")


def path_of(campaign: campaigns.Campaign) -> Path:
    """Return the path of the study."""
    return campaign.directory / "storage" / "study.json"


def read(campaign: campaigns.Campaign) -> dict:
    """Return the study. Raises UserError if it is missing or has a different format or version."""
    path = path_of(campaign)
    text = campaigns.require(path, f"run: {PRODUCER} {path}").read_text(encoding="utf-8")
    try:
        study = json.loads(text)
        if study["version"] == VERSION:
            return study
    except (ValueError, KeyError, TypeError):
        pass
    raise UserError("not a storage study in the format of this version", where=path, fix=f"run: {PRODUCER} {path}")


def rows_of(study: dict) -> dict[str, list[dict]]:
    """Return the rows of each table by its name. Runs are numbered from 1."""
    rows = {name: [] for name in TABLES}
    for number, run_ in enumerate(study["runs"], 1):
        intervals = growth_rows(run_)
        rows["storage_runs"].append({"run": number, **summary(run_, intervals)})
        rows["storage_growth"] += [{"run": number, **row} for row in intervals]
        rows["storage_latency"] += [{"run": number, **row} for row in latencies(run_)]
    rows["storage_rates"] = [rate_row(run_) for run_ in study.get("rates", [])]
    return rows


def total_upper_ns(interval: dict, above_ns: int = 0) -> int:
    """Return the total latency in ns as computed in the paper: each call counts as the end of its power of two.

    Calls in powers of two below ``above_ns`` are ignored.
    """
    return sum((hi_ns + 1) * calls for lo_ns, hi_ns, calls in interval["buckets"] if lo_ns >= above_ns)


def long_from(run_: dict) -> int:
    """Return the minimum latency of long calls in ns, which is the end of the average case of a run.

    Appendix B of the paper excludes the average case from its sums without defining it. Here, it contains all powers of
    two up to the one with the 95 % quantile of the calls of the run. Therefore, at most 5 % of the calls are long.
    """
    counts = [(row["hi_ns"] + 1, row["calls"]) for row in latencies(run_)]
    total, reached = sum(calls for _, calls in counts), 0
    for end, calls in counts:
        reached += calls
        if reached >= AVERAGE_SHARE * total:
            return end
    return 0


def growth_rows(run_: dict) -> list[dict]:
    """Return one row per interval. Sums are cumulative since the first call."""
    intervals, long_from_ns = run_["intervals"], long_from(run_)
    sums = {
        "calls": accumulate(interval["calls"] for interval in intervals),
        "written_bytes": accumulate(interval["bytes"] for interval in intervals),
        "latency_ns": accumulate(interval["latency_ns"] for interval in intervals),
        "latency_upper_ns": accumulate(total_upper_ns(interval) for interval in intervals),
        "long_calls": accumulate(
            sum(calls for lo_ns, _, calls in interval["buckets"] if lo_ns >= long_from_ns) for interval in intervals
        ),
        "long_upper_ns": accumulate(total_upper_ns(interval, long_from_ns) for interval in intervals),
    }
    rows = []
    for number, (interval, *summed) in enumerate(zip(intervals, *sums.values(), strict=True), 1):
        row = dict(zip(sums, summed, strict=True))
        memory = run_["memory_bytes"]
        rows.append(
            {
                "place": number,
                "t_ns": interval["at_ns"] - intervals[0]["at_ns"],
                **row,
                "written_percent": 100 * row["written_bytes"] / memory,
                "longest_ns": interval["longest_ns"],
                "dirty_bytes": interval["dirty_bytes"],
                "dirty_percent": 100 * (interval["dirty_bytes"] + interval["writeback_bytes"]) / memory,
                "writeback_bytes": interval["writeback_bytes"],
            }
        )
    return rows


def summary(run_: dict, intervals: list[dict]) -> dict:
    """Return the row of a run in table storage_runs. ``intervals``: rows of the run from `growth_rows`."""
    summed = ("calls", "latency_ns", "latency_upper_ns", "long_calls", "long_upper_ns")
    last = intervals[-1] if intervals else dict.fromkeys(summed, 0)
    max_percent = max((row["dirty_percent"] for row in intervals), default=0.0)
    background, limit = run_["background_percent"], run_["limit_percent"]
    copied = ("background_percent", "limit_percent", "disk_mbps", "writer", "call", "memory_bytes")
    counted = ("offered", "written", "lost", "written_bytes", "missed_bytes", "offered_ns")
    return {
        **{name: run_[name] for name in (*copied, *counted)},
        "lost_share": run_["lost"] / run_["offered"] if run_["offered"] else None,
        **{name: last[name] for name in summed},
        "long_from_ns": long_from(run_),
        "longest_ns": max((row["longest_ns"] for row in intervals), default=None),
        "dirty_most_percent": max_percent,
        "crossed": crossed(max_percent, background, limit),
    }


def rate_row(run_: dict) -> dict:
    """Return the row of table storage_rates for a run at one rate."""
    offered, lost, time_ns = run_["offered"], run_["lost"], run_["offered_ns"]
    bits = 8 * run_["frame_bytes"] * offered
    return {
        **{name: run_[name] for name in ("snaplen", "frame_bytes", "writer", "cores", "offered", "written", "lost")},
        **{"offered_ns": time_ns, "whole_ns": run_["whole_ns"], "wanted_fps": run_["wanted_fps"]},
        "rate_bps": bits * 10**9 // time_ns if time_ns else None,
        "lost_share": lost / offered if offered else None,
    }


def crossed(percent: float, background: int, limit: int) -> str:
    """Return the highest threshold that dirty memory reached. Writers are throttled from the midpoint (appendix B)."""
    if percent >= limit:
        return "limit"
    if 2 * percent >= background + limit:
        return "midpoint"
    return "background" if percent >= background else "none"


def latencies(run_: dict) -> list[dict]:
    """Return the latency histogram of a run, one row per power of two with calls."""
    counts: dict[tuple[int, int], int] = {}
    for interval in run_["intervals"]:
        for lo_ns, hi_ns, calls in interval["buckets"]:
            counts[lo_ns, hi_ns] = counts.get((lo_ns, hi_ns), 0) + calls
    return [{"lo_ns": lo, "hi_ns": hi, "calls": calls} for (lo, hi), calls in sorted(counts.items())]
