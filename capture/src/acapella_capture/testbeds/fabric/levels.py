"""What the permissions of a project allow: capture on its own nodes, mirrors within its own slice, or a whole site."""

from collections.abc import Collection, Iterator, Sequence
from typing import Literal

from . import requirements

Level = Literal["host", "site"]
MEANINGS: dict[Level, str] = {
    "host": "tcpdump on the data interfaces of your slice's nodes; needs no permission",
    "site": "mirrors of switch ports to listening nodes in separate slices",
}


def missing_for_site(nics: Sequence[str], tags: Collection[str]) -> list[str]:
    """Return the permission tags that a project lacks for mirrors of a site's ports, each as `A` or `A or B`."""
    return [" or ".join(names) for names in requirements.mirror_tags(nics) if not set(names) & set(tags)]


def choose(nics: Sequence[str], tags: Collection[str]) -> Level:
    """Return the highest level that a project with these tags may use."""
    return "host" if missing_for_site(nics, tags) else "site"


def describe(nics: Sequence[str], tags: Collection[str]) -> Iterator[str]:
    """Yield the level of a project with these tags, and what the next one needs."""
    level = choose(nics, tags)
    yield f"sampling level {level}, chosen from the project's permissions: {MEANINGS[level]}"
    if missing := missing_for_site(nics, tags):
        yield f"level site needs the permission {', '.join(missing)}"
