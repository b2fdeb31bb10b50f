"""Aggregates the reports of a run into flows, with the collector."""

from dataclasses import dataclass
from pathlib import Path

from acapella_core.errors import UserError

from .program import Run
from .settings import Settings


@dataclass(frozen=True)
class Received:
    """The collector's output files and counters."""

    flows: Path
    series: Path | None
    windows: Path | None
    counters: dict[str, int]


def receive(run: Run, directory: Path, settings: Settings, *, window_ns: int | None) -> Received:
    """Feed a run's reports to a collector; write flows.parquet and collector.json to ``directory``.

    With a window length, also write series.parquet (a row per report) and windows.parquet (a row per window). Raises
    UserError if the reports are incomplete.
    """
    if window_ns is None:
        return Received(directory / "flows.parquet", None, None, collect(run, directory, settings, None, None))
    series, windows = directory / "series.parquet", directory / "windows.parquet"
    collect(run, directory, settings, window_ns, windows)
    counters = collect(run, directory, settings, 0, series)
    return Received(directory / "flows.parquet", series, windows, counters)


def collect(
    run: Run, directory: Path, settings: Settings, series_ns: int | None, series: Path | None
) -> dict[str, int]:
    """Write the collector's files to ``directory``; return its counters."""
    from acapella_core.collector import Collector, Options, QueuePair  # noqa: PLC0415 (pyarrow)

    ring = settings.ring
    pairs = [QueuePair(ring.number, ring.key, ring.base, ring.slots, ring.psn)]
    options = Options(format=settings.report_format, series_ns=series_ns)
    with Collector(pairs, options, series=series) as collector:
        end = collector.feed(run.reports)
        counters = collector.finish()
        collector.write_flows(directory / "flows.parquet")
        collector.write_counters(directory / "collector.json")
    if end["end"] != "clean":
        raise UserError(f"incomplete reports: {end['end']}", where=run.reports)
    return counters
