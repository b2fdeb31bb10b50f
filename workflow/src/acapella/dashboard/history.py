"""The campaigns of a dashboard in chronological order, and the values of their trends."""

import functools
import statistics
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass

from acapella.common.wording import natural, percent, scaled
from acapella.report.summary import utc_text

from .cells import shown
from .charts import Axis, Point, Span
from .counts import Counts, total
from .summaries import Summary

SPARSE_SHARE = 0.25  # share of the median time captured; a campaign with less has a hollow mark
FAR_NS = 10 * 31_557_600 * 10**9  # as column misdated of capture_quality: 10 years from the median start


@dataclass(frozen=True)
class Trend:
    """A number of each campaign, site or port over time."""

    axis: Axis
    value: Callable[[Counts], float | None]


def bits(value: float) -> str:
    """Return a rate as text."""
    return scaled(value, "bit/s")


def wire_size(value: float) -> str:
    """Return a number of bytes as text."""
    return scaled(value, "B")


def count_text(value: float) -> str:
    """Return a count as text, with an SI prefix if it is at least 1,000."""
    return scaled(value, "").rstrip()


RATE = Trend(Axis("Mean rate of a port", bits), lambda counts: counts.rate_bps)
LOSS = Trend(Axis("Lost frames", percent), lambda counts: counts.loss_share)
FLOWS = Trend(Axis("Flows", count_text), lambda counts: counts.flows)
BYTES = Trend(Axis("Bytes on the wire", wire_size), lambda counts: counts.wire_bytes)
KAPPA = Axis("Lowest kappa of an environment", lambda value: f"{value:.3g}", maximum=1.0)
PLACE_TRENDS = (RATE, LOSS, FLOWS)
CAMPAIGN_TRENDS = (BYTES, RATE, LOSS, FLOWS)


@dataclass(frozen=True)
class History:
    """Summaries of campaigns by name."""

    summaries: Mapping[str, Summary]

    @functools.cached_property
    def names(self) -> list[str]:
        """Return all campaigns: the latest start first, then campaigns without a time, in natural order."""
        by_name = sorted(self.summaries, key=natural)
        starts = {name: self.summaries[name].start_ns for name in by_name}
        return sorted(by_name, key=lambda name: (starts[name] is None, -(starts[name] or 0)))

    @functools.cached_property
    def readable(self) -> list[str]:
        """Return the campaigns that can be read."""
        return [name for name in self.names if not self.summaries[name].reason]

    @functools.cached_property
    def misdated(self) -> set[str]:
        """Return the campaigns that start more than 10 years from the median start."""
        starts = {name: self.summaries[name].start_ns for name in self.readable}
        known = sorted(start for start in starts.values() if start is not None)
        if not known:
            return set()
        median = known[len(known) // 2]
        return {name for name, start in starts.items() if start is not None and abs(start - median) > FAR_NS}

    @functools.cached_property
    def dated(self) -> list[str]:
        """Return the campaigns in trends, in chronological order."""
        return [
            name
            for name in reversed(self.readable)
            if self.summaries[name].start_ns is not None and name not in self.misdated
        ]

    @functools.cached_property
    def span(self) -> Span:
        """Return the first and the last start in trends; (0, 0) without campaigns."""
        starts = [self.summaries[name].start_ns for name in self.dated]
        return (starts[0], starts[-1]) if starts else (0, 0)

    @functools.cached_property
    def marks(self) -> dict[str, tuple[int, str]]:
        """Return the start and the label of each campaign in trends; the trends of all ports have the same labels."""
        starts = {name: self.summaries[name].start_ns or 0 for name in self.dated}
        return {name: (start, f"{shown(name)}, {utc_text(start)[:10]}") for name, start in starts.items()}

    @functools.cached_property
    def sites(self) -> dict[str, dict[str, dict[str, Counts]]]:
        """Return the counts by site, port and campaign, without campaigns with pseudonyms."""
        sites: dict[str, dict[str, dict[str, Counts]]] = {}
        for name in self.readable:
            if self.summaries[name].pseudonyms:
                continue
            for place in self.summaries[name].places:
                sites.setdefault(place.site, {}).setdefault(place.port, {})[name] = place.counts
        return {
            site: {port: sites[site][port] for port in sorted(sites[site], key=natural)}
            for site in sorted(sites, key=natural)
        }

    def site_counts(self, site: str) -> dict[str, Counts]:
        """Return the counts of a site by campaign."""
        campaigns: dict[str, list[Counts]] = {}
        for by_campaign in self.sites[site].values():
            for name, counts in by_campaign.items():
                campaigns.setdefault(name, []).append(counts)
        return {name: total(campaigns[name]) for name in self.names if name in campaigns}

    def points(self, values: Mapping[str, float | None], sparse: Container[str] = ()) -> list[Point]:
        """Return the values of the campaigns in trends that are in ``values``.

        ``sparse``: campaigns that captured little time.
        """
        return [
            Point(start, values[name], label, name in sparse)
            for name, (start, label) in self.marks.items()
            if name in values
        ]

    def trend(self, trend: Trend, counts: Mapping[str, Counts]) -> list[Point]:
        """Return the values of a trend of a site or a port. ``counts`` are by campaign."""
        return self.points({name: trend.value(sums) for name, sums in counts.items()}, self.sparse(counts))

    def sparse(self, counts: Mapping[str, Counts]) -> set[str]:
        """Return the campaigns in trends that captured less than SPARSE_SHARE of the median time of all of them."""
        times = {name: counts[name].duration_ns for name in self.marks if name in counts}
        min_ns = SPARSE_SHARE * statistics.median(times.values()) if times else 0
        return {name for name, time_ns in times.items() if time_ns < min_ns}
