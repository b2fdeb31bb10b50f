"""Runs the storage study (Patchwork, appendix B): latency of writes while the page cache fills, buffered and direct."""

import json

from acapella.campaign import storage

from . import table
from .programs import Bench, acapella

COLUMNS = ("Latency from (µs)", *("buffered", "direct"))


def run(bench: Bench) -> list[dict]:
    """Return a row per run, with the whole run for the JSON; print histograms of all runs of each writer."""
    settings = bench.scale["storage"]
    path = bench.directory / "study.json"
    words = ["-o", path, "--thresholds", *settings["thresholds"], "--disk-mbps", *settings["disks"]]
    words += ["--memory-mb", settings["memory_mb"], "--rate", settings["rate"], "--seconds", settings["run_s"]]
    bench.measure(acapella("measure", "storage", *words), any_core=True)
    study = json.loads(path.read_text(encoding="utf-8"))
    if study["skipped"]:
        return [{"measured": "skipped", "value": study["skipped"]}]
    tables = storage.rows_of(study)
    print(table.format_table(COLUMNS, histogram(tables)), "\n")
    notes = [{"measured": "skipped", "value": note} for note in study["notes"]]
    return [row_of(run_, tables) for run_ in tables["storage_runs"]] + notes


def histogram(tables: dict[str, list[dict]]) -> list[list]:
    """Return the number of calls of each writer, over all its runs, by power of two of their latency."""
    writers = {run_["run"]: run_["writer"] for run_ in tables["storage_runs"]}
    counts: dict[int, dict[str, int]] = {}
    for row in tables["storage_latency"]:
        calls = counts.setdefault(row["lo_ns"], dict.fromkeys(COLUMNS[1:], 0))
        calls[writers[row["run"]]] += row["calls"]
    return [[lo_ns / 1000, *calls.values()] for lo_ns, calls in sorted(counts.items())]


def row_of(run_: dict, tables: dict[str, list[dict]]) -> dict:
    """Return the row of one run, with its rows of table storage_growth for the JSON."""
    where = f"disk of {run_['disk_mbps']} MB/s" if run_["disk_mbps"] else "own disk"
    longest_ms = (run_["longest_ns"] or 0) / 1e6
    lost = 100 * (run_["lost_share"] or 0)
    return {
        "measured": f"{run_['background_percent']}:{run_['limit_percent']}, {where}, {run_['writer']}",
        "value": run_["latency_ns"] / 1e6,
        "unit": "ms",
        "note": f"in {run_['calls']:,} calls of {run_['call']}, longest {longest_ms:.2f} ms; crossed: "
        f"{run_['crossed']}; {run_['written']:,} of {run_['offered']:,} frames written, {lost:.2f} % lost",
        **{name: value for name, value in run_.items() if name != "run"},
        "histogram": [row for row in tables["storage_latency"] if row["run"] == run_["run"]],
    }
