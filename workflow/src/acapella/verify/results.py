"""Sums up the results of comparing one or more files, and prints them."""

import sys
from dataclasses import dataclass, field
from typing import NamedTuple

from acapella_core import names

DEFAULT_EXAMPLES = 10  # maximum number of frames listed for each kind
# In the order in which disagreements are printed: layers 2 to 4, then record fields, then everything above layer 4.
LOWER = ("link", "network", "transport", "addresses", "ports", "vlan", "mpls", "tunnels", "tcp")
RECORD = ("frames", "time", "lengths")
ABOVE = ("above layer 4", "protocols")
NO_TAGS = "the digest has none: no flow, and the header is truncated or tshark's result was used"
UNCOMPARED = {  # layers that are not compared on every frame, and why
    "time": "neither digest has a plausible timestamp",
    "vlan": NO_TAGS,
    "mpls": NO_TAGS,
    "tunnels": NO_TAGS,
    "above layer 4": "the core alone could not decide",
}


@dataclass
class LayerCounts:
    """Numbers of frames with each outcome on one layer."""

    agree: int = 0
    errata: int = 0
    differ: int = 0

    def add(self, other: "LayerCounts") -> None:
        """Add the counts of a file."""
        self.agree += other.agree
        self.errata += other.errata
        self.differ += other.differ


@dataclass
class FrameExamples:
    """A group of frames: their number, and descriptions of the first ones."""

    frames: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, other: "FrameExamples", first: int) -> None:
        """Add the frames of a file; ``first``: maximum number of descriptions in total."""
        self.frames += other.frames
        self.first += other.first[: max(first - len(self.first), 0)]

    def __str__(self) -> str:
        more = ", ..." if 0 < len(self.first) < self.frames else ""
        return names.pluralize(self.frames, "frame") + (f" ({', '.join(self.first)}{more})" if self.first else "")


class DisagreementKind(NamedTuple):
    """A kind of disagreement: the layer and, for header tokens, both values.

    For the layer `protocols`, the values are the tokens above layer 4.
    """

    layer: str
    ours: str | None
    theirs: str | None

    def order(self) -> tuple:
        """Return the sort key that determines the order of output."""
        return ((*LOWER, *RECORD, *ABOVE).index(self.layer), self.ours or "", self.theirs or "")


@dataclass
class Result:
    """The result of comparing one or more files."""

    frames: int = 0
    native: int = 0
    files: int = 0
    tallies: dict[str, LayerCounts] = field(default_factory=dict)
    disagreements: dict[DisagreementKind, FrameExamples] = field(default_factory=dict)  # without erratum
    partly_compared: dict[str, FrameExamples] = field(default_factory=dict)  # by layer: frames not compared on it
    errata: dict[str, FrameExamples] = field(default_factory=dict)
    faults: int = 0  # number of frames with a fault, as defined by Comparison._faults
    notes: list[str] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)

    def tally(self, layer: str) -> LayerCounts:
        """Return the counts of a layer."""
        return self.tallies.setdefault(layer, LayerCounts())

    def add(self, other: "Result", first: int) -> None:
        """Add the counts of the next files; ``first``: maximum number of frames listed for each kind."""
        self.frames += other.frames
        self.native += other.native
        self.files += other.files
        self.faults += other.faults
        self.notes += other.notes
        self.not_compared += other.not_compared
        for layer, tally in other.tallies.items():
            self.tally(layer).add(tally)
        for name in ("disagreements", "partly_compared", "errata"):
            examples_by_key = getattr(self, name)
            for key, examples in getattr(other, name).items():
                examples_by_key.setdefault(key, FrameExamples()).add(examples, first)


def print_result(result: Result, skipped: list[str]) -> None:
    """Print disagreements, the table of layers, and known tshark errors; list files not compared on standard error."""
    for line in result.not_compared:
        names.report(f"not compared: {line}")
    for line in skipped:
        names.report(f"skipped: {line}")
    if not result.files:
        return
    for name, lines in (("not compared", result.not_compared), ("skipped", skipped)):
        if lines:
            names.report(f"{names.pluralize(len(lines), 'file')} {name}")
    print_disagreements(result)
    share = percent(result.native, result.frames)
    not_compared = f" ({len(result.not_compared)} not compared)" if result.not_compared else ""
    files, frames = names.pluralize(result.files, "file"), names.pluralize(result.frames, "frame")
    print(f"\n{files}{not_compared}, {frames}; layers 2 to 4 of {share} of the frames were decoded by the core")
    print(f"{'layer':14}{'agree':>13}{'tshark error':>14}{'differ':>11}{'share that agrees':>20}")
    for layer, tally in result.tallies.items():
        compared = tally.agree + tally.differ
        print(f"{layer:14}{tally.agree:13,}{tally.errata:14,}{tally.differ:11,}{percent(tally.agree, compared):>20}")
    print_not_compared(result.partly_compared)
    for name, examples in sorted(result.errata.items()):
        names.report(f"known tshark error {name}: {examples}", sys.stdout)
    print(f"frames with a disagreement on a layer that the core decoded: {result.faults:,}")


def print_not_compared(partly_compared: dict[str, FrameExamples]) -> None:
    """Print the frames that were not compared on some layers, in one line for layers with equal frames and reason."""
    layers: dict[tuple[str, str], list[str]] = {}
    for layer, reason in UNCOMPARED.items():
        if layer in partly_compared and partly_compared[layer].frames:
            layers.setdefault((reason, str(partly_compared[layer])), []).append(layer)
    for (reason, examples), same_layers in layers.items():
        names.report(f"not compared, {', '.join(same_layers)} ({reason}): {examples}", sys.stdout)


def percent(part: int, total: int) -> str:
    """Return a share as ``99.982 %``, rounded down so that only a share of 1 is 100 %; ``-`` if ``total`` is 0."""
    return f"{100_000 * part // total / 1000:.3f} %" if total else "-"


def print_disagreements(result: Result) -> None:
    """Print each kind of disagreement with its first frames, layers 2 to 4 first and higher layers last."""
    for line in result.notes:
        names.report(line, sys.stdout)
    for kind in sorted(result.disagreements, key=DisagreementKind.order):
        examples = result.disagreements[kind]
        both_values = (
            "" if kind.ours is None and kind.theirs is None else f", ours {kind.ours!r}, tshark {kind.theirs!r}"
        )
        above = " above layer 4" if kind.layer == "protocols" and both_values else ""
        print(f"disagreement, {kind.layer}{both_values}{above}: {names.pluralize(examples.frames, 'frame')}")
        for line in examples.first:
            names.report(line, sys.stdout)
