"""The space that the captures or digests of a plan need, compared with the free space of the campaign's directory."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..settings import Settings
from ..testbeds.base import Site
from .samples import RECORD_BYTES, SitePlan, max_sample_bytes

GB = 1e9
DIGEST_ON_NODES = "to digest captures on the nodes and fetch only the digests, set `collect: {digest_on: node}`"
RUN_ON_A_VM = "run the campaign on a VM of FABRIC and fetch its results without raw/ (docs/fabric.md)"
CAPTURE_LESS = "reduce collect.cycles, capture.sample_s or capture.snaplen"
DIGEST_BYTES_PER_FRAME = 50  # measured: 13 to 21 bytes for the fetched digest, 12 to 26 for its acap and flow table


def max_site_bytes(settings: Settings, site: Site, plan: SitePlan) -> float | None:
    """Return the size of all samples of a site at line rate; None if the rate of a port is unknown."""
    sizes = [max_sample_bytes(settings, port, None) for port in site.ports]
    if None in sizes or not sizes:
        return None
    cycles = plan.remaining_s(0) / (plan.sample_interval_s * plan.samples_per_cycle)
    ports = min(plan.receivers, len(site.ports))
    return sum(sizes) / len(sizes) * ports * plan.samples_per_cycle * cycles


def space_lines(settings: Settings, plans: Sequence[SitePlan], directory: Path) -> Iterator[str]:
    """Yield the space that the plan needs and the free space of the campaign's directory.

    If the space may not suffice, also yield the alternatives.
    """
    sizes = [max_site_bytes(settings, plan.site, plan) for plan in plans]
    captures = sum(size or 0 for size in sizes)
    size_text = f"up to {captures / GB:.1f} GB at line rate, before compression" if captures else "unknown size"
    more = ", and more at sites with ports of unknown rate" if captures and None in sizes else ""
    free = free_bytes(directory)
    free_text = f"{free / GB:.1f} GB is free in {directory}"
    on_nodes = settings.collect.digest_on == "node"
    needed = captures
    if on_nodes:
        needed = captures / frame_bytes(settings) * DIGEST_BYTES_PER_FRAME
        free_text = f"digested on their nodes, which needs up to {needed / GB:.1f} GB here; {free_text}"
    yield f"space: captures of {size_text}{more}; {free_text}"
    if needed > free:
        yield f"space: this may not suffice; {', or '.join(alternatives(settings))}"


def alternatives(settings: Settings) -> Iterator[str]:
    """Yield what a user can do if captures or digests do not fit onto the local disk."""
    if settings.testbed == "fabric":
        if settings.collect.digest_on == "here" and settings.fabric.replay is None:
            yield DIGEST_ON_NODES
        yield RUN_ON_A_VM
    yield CAPTURE_LESS


def frame_bytes(settings: Settings) -> int:
    """Return the bytes of a frame of mean length in a capture."""
    capture = settings.capture
    return min(capture.snaplen, settings.collect.mean_frame_bytes) + RECORD_BYTES[capture.format]


def free_bytes(directory: Path) -> int:
    """Return the free space of the file system that contains a directory, which need not exist."""
    path = directory.absolute()
    return shutil.disk_usage(next(candidate for candidate in (path, *path.parents) if candidate.exists())).free
