"""What a reader has to know before trusting a number: losses, coarse clocks, cut files, samples that failed."""

import csv

from ..figures.quality import loss
from ..figures.source import Source
from ..figures.wording import count, nanoseconds, percent

COARSE_NS = 1000  # from here on, frames of a 10 Gbit/s link share stamps (67 ns for the smallest)
NAMED = 8  # samples named in a warning; more are counted


def of(source: Source) -> list[str]:
    """One sentence each, the gravest first; [] where nothing is wrong."""
    rows = source.quality
    found = [failed(source), *(check(rows) for check in (cut, empty, lossy, unknown, coarse, reversed_, malformed))]
    return [text for text in [*found, unsure(rows), undecided(rows), ambiguous(rows)] if text]


def named(rows: list[dict]) -> str:
    """The samples, the first few by name."""
    names = [row["sample"] for row in rows[:NAMED]]
    more = f" and {len(rows) - NAMED} more" if len(rows) > NAMED else ""
    return ", ".join(names) + more


def failed(source: Source) -> str | None:
    """Collected samples that no table knows; their names would give pseudonyms away, so they are only counted."""
    sheet = source.campaign.folder / "raw" / "samples.tsv"
    if not sheet.is_file():
        return None
    with sheet.open(encoding="utf-8", newline="") as stream:
        collected = sum(1 for _ in csv.DictReader(stream, delimiter="\t"))
    missing = collected - len(source.quality)
    if missing <= 0:
        return None
    return f"{count(missing, 'collected sample')} of {collected} not in this report; logs/ says why."


def cut(rows):
    """Files that end in the middle of a record."""
    bad = [row for row in rows if row["file_issue"]]
    if bad:
        return f"{count(len(bad), 'file')} could not be read to the end (every whole record is kept): {named(bad)}."
    return None


def empty(rows):
    """Samples without a frame."""
    bad = [row for row in rows if not row["frames"]]
    return f"{count(len(bad), 'sample')} without a frame: {named(bad)}." if bad else None


def lossy(rows):
    """Samples that lost frames."""
    bad = sorted((row for row in rows if row["loss_share"]), key=lambda row: -row["loss_share"])
    if not bad:
        return None
    worst = percent(bad[0]["loss_share"])
    return (
        f"{count(len(bad), 'sample')} of {len(rows)} lost frames, the worst {worst} of what was offered: {named(bad)}."
    )


def unknown(rows):
    """Samples about whose loss nothing is known."""
    bad = [row for row in rows if loss(row) is None]
    return f"The loss of {count(len(bad), 'sample')} of {len(rows)} is unknown: nobody counted." if bad else None


def coarse(rows):
    """Clocks too coarse for gaps between frames."""
    bad = [row for row in rows if row["clock_resolution_ns"] is not None and row["clock_resolution_ns"] >= COARSE_NS]
    if not bad:
        return None
    worst = nanoseconds(max(row["clock_resolution_ns"] for row in bad))
    return f"{count(len(bad), 'sample')} with stamps no finer than {worst}: shorter gaps between frames are not real."


def reversed_(rows):
    """Time that goes backwards."""
    bad = [row for row in rows if row["time_reversals"]]
    total = sum(row["time_reversals"] for row in bad)
    if not bad:
        return None
    return (
        f"{count(total, 'frame')} stamped earlier than the frame before, in {named(bad)}: capture queues or merged "
        "files were written out of order, or a clock was set back; frames are read in the file's order, so "
        "retransmissions, duplicate ACKs and handshake times may be off there. To mend it, sort the capture with "
        "Wireshark's reordercap and digest the sorted file."
    )


def malformed(rows):
    """Frames with an issue."""
    total, frames = sum(row["issue_frames"] for row in rows), sum(row["frames"] for row in rows)
    if not total:
        return None
    share = percent(total / frames)
    return f"{count(total, 'frame')} ({share}) malformed or cut; they are kept, with the headers that were whole."


def unsure(rows):
    """Frames whose lower layers nobody decided with certainty."""
    total = sum(row["l4_unsure_frames"] for row in rows)
    return (
        f"{count(total, 'frame')} whose headers the core could not tell for certain (engine native)." if total else None
    )


def undecided(rows):
    """Frames whose application nobody decided."""
    total = sum(row["app_undecided_frames"] for row in rows)
    return f"{count(total, 'frame')} with payload that no engine looked into (engine native)." if total else None


def ambiguous(rows):
    """Flows whose other direction is not known."""
    total = sum(row["peers_ambiguous"] for row in rows)
    return (
        f"{count(total, 'flow')} with several candidates for the other direction, and none chosen." if total else None
    )
