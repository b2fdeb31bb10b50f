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
    counters: dict[str, int]


def receive(run: Run, folder: Path, settings: Settings, *, series: bool) -> Received:
    """Feed a run's reports to a collector; writes flows.parquet, series.parquet (a row a report) and collector.json.

    Raises UserError where a report that was sent is neither taken nor counted by its reason.
    """
    from acapella_core.collector import Collector, Options, QueuePair  # noqa: PLC0415 (pyarrow)

    ring = settings.ring
    pairs = [QueuePair(ring.number, ring.key, ring.base, ring.slots, ring.psn)]
    options = Options(format=settings.report_format, series_ns=0 if series else None)
    over_time = folder / "series.parquet" if series else None
    with Collector(pairs, options, series=over_time) as collector:
        end = collector.feed(run.reports)
        counters = collector.finish()
        collector.write_flows(folder / "flows.parquet")
        collector.write_counters(folder / "collector.json")
    if end["end"] != "clean":
        raise UserError(f"reports end with {end['end']}", where=run.reports)
    return Received(folder / "flows.parquet", over_time, counters)
