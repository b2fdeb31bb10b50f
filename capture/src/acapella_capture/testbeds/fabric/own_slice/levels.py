"""Sampling levels by permissions: capture on the user's nodes, mirrors within the user's slice, or a whole site."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Literal

from acapella_core.errors import UserError

from ....plan.disk import sized_to_disk
from ....settings import FabricSettings, Settings
from .. import requirements

Level = Literal["host", "slice", "site"]
MEANINGS: dict[Level, str] = {
    "host": "captures on the data interfaces of your slice's nodes; needs no permission",
    "slice": "mirrors of your slice's ports, to listening nodes that are added to it",
    "site": "mirrors of switch ports to listening nodes in separate slices",
}


def missing_for_mirrors(settings: FabricSettings, tags: Collection[str]) -> list[str]:
    """Return the permission tags that a project lacks for the configured mirrors, each as `A` or `A or B`."""
    return [" or ".join(names) for names in requirements.mirror_tags(settings) if not set(names) & set(tags)]


def choose(settings: FabricSettings, tags: Collection[str]) -> Level:
    """Return the highest level that a project with these tags may use with this config."""
    if missing_for_mirrors(settings, tags):
        return "host"
    return "slice" if settings.nodes == "own" else "site"


def describe(settings: FabricSettings, tags: Collection[str]) -> Iterator[str]:
    """Yield the level of a project with these tags, and the requirements of higher levels."""
    level = choose(settings, tags)
    yield f"sampling level {level}, chosen from the project's permissions: {MEANINGS[level]}"
    own, separate = replace(settings, nodes="own"), replace(settings, nodes="separate")
    if level == "host":
        if missing := missing_for_mirrors(own, tags):
            yield f"level slice needs the permission {', '.join(missing)}, and fabric.nodes: own"
        else:
            yield "level slice needs fabric.nodes: own"
    if missing := missing_for_mirrors(separate, tags):
        yield f"level site needs the permission {', '.join(missing)}"


def adapt(settings: Settings, tags: Collection[str], receivers: int) -> Settings:
    """Return the settings with a smaller disk and samples that fit onto it, if the project may not have a larger one.

    Raises UserError if no sample fits. `receivers`: number of receivers of each node.
    """
    if requirements.has_large_disks(tags):
        return settings
    adapted = sized_to_disk(settings, requirements.FREE["disk_gb"], receivers)
    if adapted.capture.sample_s <= 0:
        raise UserError(f"no sample fits onto a disk of {adapted.collect.disk_gb} GB", where="collect.disk_reserve_mb")
    return adapted


def reductions(settings: Settings, adapted: Settings) -> Iterator[str]:
    """Yield descriptions of what `adapt` reduced."""
    if adapted != settings:
        yield (
            f"without {requirements.LIMITS['disk_gb']}: nodes with {adapted.collect.disk_gb} GB of disk "
            f"({settings.collect.disk_gb} GB in the config), samples of {adapted.capture.sample_s:g} s "
            f"({settings.capture.sample_s:g} s in the config), each fetched before the next one"
        )
