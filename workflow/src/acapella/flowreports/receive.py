"""Reports of a run into flows, by the collector."""

from dataclasses import dataclass
from pathlib import Path

from acapella_core.errors import UserError

from .program import Run
from .settings import Settings


@dataclass(frozen=True)
class Received:
    """The collector's files and counters."""

    flows: Path
    series: Path | None
    windows: Path | None
    counters: dict[str, int]


def receive(run: Run, directory: Path, settings: Settings, *, window_ns: int | None) -> Received:
    """Feed a run's reports to a collector; writes flows.parquet and collector.json into ``directory``.

    With a length of windows series.parquet (a row a report) and windows.parquet (a row a window), too. Raises UserError
    where the reports do not end as they should.
    """
    if window_ns is None:
        return Received(directory / "flows.parquet", None, None, collected(run, directory, settings, None, None))
    series, windows = directory / "series.parquet", directory / "windows.parquet"
    collected(run, directory, settings, window_ns, windows)
    counters = collected(run, directory, settings, 0, series)
    return Received(directory / "flows.parquet", series, windows, counters)


def collected(
    run: Run, directory: Path, settings: Settings, series_ns: int | None, series: Path | None
) -> dict[str, int]:
    """The counters of a collector of the run's reports, whose files are in ``directory`` then."""
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
        raise UserError(f"reports end with {end['end']}", where=run.reports)
    return counters
