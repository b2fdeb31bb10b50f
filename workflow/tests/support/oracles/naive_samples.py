"""The samples of a campaign as plain lists and dictionaries, for the naive reference."""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import pyarrow.parquet as pq


@dataclass
class Sample:
    """One sample: frames and flows as dictionaries, manifest, and metadata of the digest."""

    name: str
    site: str
    port: str
    frames: list[dict]
    flows: list[dict]
    manifest: dict
    digest: dict = field(default_factory=dict)
    trial: bool = False  # the config names it as a trial

    @property
    def declared(self) -> dict[str, str | None]:
        """Return the restrictions in the sample sheet, with details."""
        return {each["reason"]: each["detail"] for each in self.manifest.get("restrictions", [])}

    @property
    def restrictions(self) -> list[str]:
        """Return the reasons why the sample does not contain all traffic of its port."""
        m, declared = self.manifest, self.declared
        found = {
            "trial": self.trial or any(m.get(key) is not None for key in ("environment", "trial", "replayed_frames")),
            "filter": bool((m.get("filter") or "").strip()),
            "p4": m.get("p4") is not None or m["method"] == "fpga",
            "sampling": (m.get("one_in") or 1) > 1,
        }
        return [reason for reason, holds in found.items() if holds or reason in declared]

    @property
    def span(self) -> tuple[int, int, str] | None:
        """Return the observed time of the port, and its source."""
        stamps = [f["ts_ns"] for f in self.frames if f["ts_ns"] is not None]
        known = self.manifest["actual"]
        if None not in known.values():
            return min([known["start_ns"], *stamps]), max([known["end_ns"], *stamps]), "manifest"
        return (min(stamps), max(stamps), "frames") if stamps else None


def read_campaign(directory: Path) -> list[Sample]:
    """Return the digested samples of a campaign."""
    samples = []
    for path in sorted((directory / "acap").glob("*.parquet")):
        flows = pq.read_table(directory / "flows" / path.name)
        manifest = json.loads((directory / "raw" / f"{path.stem}.json").read_text(encoding="utf-8"))
        frames = pq.read_table(path)
        digest = json.loads(pq.read_metadata(path).metadata[b"acapella"])
        site, port = manifest["site"], manifest["port"]
        samples.append(Sample(path.stem, site, port, frames.to_pylist(), flows.to_pylist(), manifest, digest))
    return samples


TEN_YEARS_NS = 3652.5 * 86400 * 10**9
NS_1980 = 3652 * 86400 * 10**9


def misdated(samples: list[Sample]) -> dict[str, bool | None]:
    """Return for each sample whether it is more than ten years from the median sample; None without a time."""
    starts = sorted(s.span[0] for s in samples if s.span)
    starts = [start for start in starts if start >= NS_1980] or starts
    middle = starts[(len(starts) - 1) // 2] if starts else 0
    return {s.name: any(abs(at - middle) > TEN_YEARS_NS for at in s.span[:2]) if s.span else None for s in samples}


def traffic(samples: list[Sample], which: str = "unfiltered") -> list[Sample]:
    """Return the samples that count as traffic: unfiltered samples, else samples that are not trials, else all."""
    if which == "all":
        return samples
    rank = {s.name: 2 if "trial" in s.restrictions else min(len(s.restrictions), 1) for s in samples}
    least = min((rank[s.name] for s in samples if s.frames), default=2)
    return [s for s in samples if rank[s.name] <= least]


def scopes(samples):
    """Return pairs of a site and its samples, and (all, all samples)."""
    sites = sorted({s.site for s in samples})
    return [(site, [s for s in samples if s.site == site]) for site in sites] + [("all", samples)]


def by_port(samples):
    """Return pairs of (site, port) and its samples."""
    groups = defaultdict(list)
    for s in samples:
        groups[s.site, s.port].append(s)
    return sorted(groups.items())


def covered(samples):
    """Return the times that samples of one port cover, as disjoint intervals."""
    islands = []
    for start, end, _ in sorted(s.span for s in samples if s.span):
        if islands and start <= islands[-1][1]:
            islands[-1][1] = max(end, islands[-1][1])
        else:
            islands.append([start, end])
    return islands


def rate(wire_bytes, ns):
    """Return bit/s, rounded half up."""
    return int(Fraction(wire_bytes * 8 * 10**9, ns) + Fraction(1, 2)) if ns > 0 else None
