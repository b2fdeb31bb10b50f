"""The figures of a campaign, in the order in which a reader meets them; one module each."""

import importlib
from types import ModuleType

NAMES = (
    "header_depth",
    "header_occurrence",
    "encapsulations",
    "frame_sizes",
    "flows_per_sample",
    "flow_sizes",
    "flow_times",
    "throughput",
    "capture_quality",
)


def module(name: str) -> ModuleType:
    """The module of a figure: ``TABLE``, ``COLUMNS`` and ``draw(source)``; imports Altair."""
    return importlib.import_module(f"acapella.figures.{name}")
