"""The space that the captures of a plan need, compared with the free space of the campaign's directory."""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..settings import Settings
from ..testbeds.base import Site
from .samples import SitePlan, max_sample_bytes

GB = 1e9
ON_A_NODE = "run the campaign on a VM of FABRIC and fetch its results without raw/ (docs/fabric.md)"
SMALLER = "reduce collect.cycles, capture.sample_s or capture.snaplen"


def max_site_bytes(settings: Settings, site: Site, plan: SitePlan) -> float | None:
    """Return the size of all samples of a site at line rate; None if the rate of a port is unknown."""
    sizes = [max_sample_bytes(settings, port, None) for port in site.ports]
    if None in sizes or not sizes:
        return None
    cycles = plan.remaining_s(0) / (plan.sample_interval_s * plan.samples_per_cycle)
    ports = min(plan.receivers, len(site.ports))
    return sum(sizes) / len(sizes) * ports * plan.samples_per_cycle * cycles


def space_line(settings: Settings, plans: Iterable[SitePlan], directory: Path) -> Iterator[str]:
    """Yield a line if the captures of all sites can exceed the free space of the campaign's directory."""
    needed = sum(max_site_bytes(settings, plan.site, plan) or 0 for plan in plans)
    free = free_bytes(directory)
    if needed > free:
        advice = f"{ON_A_NODE}, or {SMALLER}" if settings.testbed == "fabric" else SMALLER
        yield (
            f"space: captures of up to {needed / GB:.1f} GB at line rate, before compression, but only "
            f"{free / GB:.1f} GB is free in {directory}; {advice}"
        )


def free_bytes(directory: Path) -> int:
    """Return the free space of the file system that contains a directory, which need not exist."""
    place = directory.absolute()
    return shutil.disk_usage(next(each for each in (place, *place.parents) if each.exists())).free
