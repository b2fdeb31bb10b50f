"""Creates the summary of the campaign: heading, introduction, and main numbers."""

import json
from datetime import UTC, datetime

from acapella.common.wording import count, listed, nanoseconds, scaled
from acapella.figures import restrictions
from acapella.figures.quality import loss_summary, time_range
from acapella.figures.source import Source, sites_of


def from_files(source: Source) -> bool:
    """Return whether every capture existed before the campaign (testbed `files`), so that no port was mirrored."""
    return bool(source.quality) and all(row["method"] == "file" for row in source.quality)


def introduction(source: Source) -> str:
    """Return one sentence that introduces the page."""
    subject = "Traffic in capture files," if from_files(source) else "Traffic of a testbed, sampled,"
    return f"{subject} digested and summarized by Acapella."


def heading(source: Source) -> str:
    """Return the end of the page title: ``: testbed local, 2026-11-22 20:31:02 to 20:45:10 UTC``.

    The testbed is taken from the manifests, raw/SAMPLE.json. Empty without manifests and times.
    """
    parts = []
    if names := testbeds(source):
        parts.append(f"testbed {listed(names)}" if names != ["files"] else "captures from files")
    if span := capture_span(source):
        first, last = (utc_text(stamp) for stamp in span)
        parts.append(f"{first}{f' to {last.removeprefix(first[:11])}' if last != first else ''} UTC")
    return f": {', '.join(parts)}" if parts else ""


def testbeds(source: Source) -> list[str]:
    """Return the testbeds in the manifests of the samples, in alphabetical order."""
    names = set()
    for path in source.campaign.files("raw", ".json"):
        try:
            names.add(str(json.loads(path.read_text(encoding="utf-8"))["testbed"]))
        except (OSError, ValueError, LookupError, TypeError):
            continue  # no valid manifest, which `acapella campaign index` reports
    return sorted(names)


def capture_span(source: Source) -> tuple[int, int] | None:
    """Return the start of the first and the end of the last sample, in ns since 1970 (UTC), without misdated samples.

    None if no sample has a time.
    """
    return time_range(source.quality)


def facts(source: Source) -> list[tuple[str, str]]:
    """Return names and values for the top of the report."""
    rows = source.quality
    frames = sum(row["frames"] for row in rows)
    ports = len({(row["site"], row["port"]) for row in rows})
    files = from_files(source)
    port = "port" if files else "mirrored port"
    entries = [
        ("Sites", f"{len(sites_of(rows)):,} ({count(ports, port)})"),
        ("Samples", f"{len(rows):,}"),
        ("Frames", f"{frames:,}"),
        ("Bytes on the wire", scaled(sum(row["wire_bytes"] for row in rows), "B")),
        ("Losses", loss_summary(rows).removeprefix("losses: ")),
    ]
    if any(row["restriction"] for row in rows):
        counted = (
            f"{len(source.traffic):,} of {count(len(rows), 'sample')}, {source.frames:,} of {count(frames, 'frame')}"
        )
        entries.insert(3, ("In traffic statistics", counted + restrictions.title_suffix(source)))
    if span := capture_span(source):
        first, last = span
        captured_ns = sum(row["duration_ns"] for row in rows if row["duration_ns"] is not None)
        misdated = sum(bool(row["misdated"]) for row in rows)
        note = f", without {count(misdated, 'misdated sample')}" if misdated else ""
        entries.append(("Captured", f"{utc_text(first)} to {utc_text(last)} UTC ({nanoseconds(last - first)}{note})"))
        # A file contains the times of its frames, not the duration of the capture.
        label = "First to last frame, sum of all files" if files else "Time in samples"
        entries.append((label, nanoseconds(captured_ns)))
    snaplens = sorted({row["snaplen"] for row in rows if row["snaplen"] is not None})
    entries.append(("Snap length", ", ".join(f"{value:,} B" for value in snaplens) or "unknown"))
    entries.append(("Dissection engine", ", ".join(sorted({row["engine"] for row in rows})) or "none"))
    return entries


def utc_text(stamp_ns: int) -> str:
    """Return a time as date and time of day, in seconds."""
    return datetime.fromtimestamp(stamp_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S")
