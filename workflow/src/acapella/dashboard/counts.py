"""Sums over samples of a port, a site or a campaign."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from operator import attrgetter


@dataclass(frozen=True)
class Counts:
    """Sums over samples.

    ``timed_bytes``: bytes of samples with a duration; ``offered``: frames offered to samples with counters; ``lost``:
    the lost frames among these; ``unknown``: samples without counters; ``flows``: directed flows, counted per sample,
    None if they are unknown.
    """

    samples: int = 0
    frames: int = 0
    wire_bytes: int = 0
    timed_bytes: int = 0
    duration_ns: int = 0
    offered: int = 0
    lost: float = 0.0
    unknown: int = 0
    congested: int = 0
    flows: int | None = 0

    @property
    def rate_bps(self) -> float | None:
        """Return the mean rate of the samples in bit/s; None if they have no duration."""
        return 8e9 * self.timed_bytes / self.duration_ns if self.duration_ns > 0 else None

    @property
    def loss_share(self) -> float | None:
        """Return the share of offered frames that were lost; None if no sample has counters."""
        if self.unknown == self.samples:
            return None
        return self.lost / self.offered if self.offered else 0.0


VALUES = attrgetter(*(field.name for field in fields(Counts)))


def total(counts: Iterable[Counts]) -> Counts:
    """Return the sums of counts. Flows are unknown if they are unknown in any of the counts."""
    rows = map(VALUES, counts)
    sums = [None if None in values else sum(values) for values in zip(*rows, strict=True)]
    return Counts(*sums)  # without counts, all are defaults
