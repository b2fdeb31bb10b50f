"""Lists notes in the manifests of samples, with the losses of these samples."""

import json

from acapella.common.wording import count, natural
from acapella.figures.source import Source

from .tables import UNKNOWN, number, table
from .warnings import has_pseudonyms, shorten_list

MAX_NOTES = 200  # shown in the report, ordered by losses
COLUMNS = [("Samples", False), ("Number", True), ("Lost frames", True), ("Note", False)]


def tables(source: Source) -> list[dict]:
    """Return a table with one row per note, or without rows if the tables have pseudonyms; [] if there are no notes."""
    samples = sample_notes(source)
    if not samples:
        return []
    about = "From the samples' manifests, raw/SAMPLE.json. Lost frames: sum over these samples."
    if has_pseudonyms(source.campaign):
        samples_text = f"{count(len(samples), 'sample')} of {len(source.quality)}"
        about = f"{samples_text} with notes in raw/, which may contain original names."
        return [{**table("notes", "Notes on samples", about, [], []), "csv": None}]
    groups: dict[str, list[dict]] = {}
    for row, notes in samples:
        for note in notes:
            groups.setdefault(note, []).append(row)
    order = sorted(groups.items(), key=lambda entry: (-(lost_frames(entry[1]) or 0), -len(entry[1]), natural(entry[0])))
    if len(order) > MAX_NOTES:
        about += f" {MAX_NOTES} of {len(order):,} notes."
    cells = [
        [shorten_list([row["sample"] for row in rows]), number(len(rows)), lost_frames_text(rows), note]
        for note, rows in order[:MAX_NOTES]
    ]
    return [{**table("notes", "Notes on samples", about, COLUMNS, cells), "csv": None}]


def sample_notes(source: Source) -> list[tuple[dict, list[str]]]:
    """Return the samples whose manifests have notes, with these notes, in natural order.

    If the tables have pseudonyms, the row of each sample is empty.
    """
    notes_by_sample = {}
    for path in source.campaign.files("raw", ".json"):
        try:
            notes = json.loads(path.read_text(encoding="utf-8"))["notes"]
            notes_by_sample[path.stem] = list(dict.fromkeys(map(str, notes)))
        except (OSError, ValueError, LookupError, TypeError):
            continue  # no valid manifest; `acapella campaign index` reports this
    if has_pseudonyms(source.campaign):
        return [({}, notes) for notes in notes_by_sample.values() if notes]
    rows = sorted(source.quality, key=lambda row: natural(row["sample"]))
    return [(row, notes_by_sample[row["sample"]]) for row in rows if notes_by_sample.get(row["sample"])]


def lost_frames(rows: list[dict]) -> int | None:
    """Return the number of frames lost by samples; None if none of them has counters."""
    counts = [row["lost_frames"] for row in rows if row["lost_frames"] is not None]
    return sum(counts) if counts else None


def lost_frames_text(rows: list[dict]) -> str:
    """Return the number of lost frames as text, with the number of samples without counters."""
    unknown = sum(row["lost_frames"] is None for row in rows)
    total = lost_frames(rows)
    return UNKNOWN if total is None else f"{number(total)}{f', {unknown} unknown' if unknown else ''}"
