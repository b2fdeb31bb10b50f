"""The campaign in a few numbers."""

from datetime import UTC, datetime

from ..figures import restrictions
from ..figures.quality import losses_of
from ..figures.source import Source, sites_of
from ..figures.wording import count, nanoseconds, scaled


def from_files(source: Source) -> bool:
    """Whether every capture existed before the campaign (testbed `files`): none was taken from a mirrored port."""
    return bool(source.quality) and all(row["method"] == "file" for row in source.quality)


def lead(source: Source) -> str:
    """What the page is about, in a sentence."""
    what = "Traffic of captures from files," if from_files(source) else "Traffic of a testbed, sampled,"
    return f"{what} digested and summed up by Acapella."


def facts(source: Source) -> list[tuple[str, str]]:
    """Names and values for the top of the report."""
    rows = source.quality
    frames = sum(row["frames"] for row in rows)
    ports = len({(row["site"], row["port"]) for row in rows})
    starts = [row["actual_start_ns"] for row in rows if row["actual_start_ns"] is not None]
    ends = [row["actual_end_ns"] for row in rows if row["actual_end_ns"] is not None]
    files = from_files(source)
    port = "port" if files else "mirrored port"
    told = [
        ("Sites", f"{len(sites_of(rows)):,} ({count(ports, port)})"),
        ("Samples", f"{len(rows):,}"),
        ("Frames", f"{frames:,}"),
        ("Bytes on the wire", scaled(sum(row["wire_bytes"] for row in rows), "B")),
        ("Losses", losses_of(rows).removeprefix("losses: ")),
    ]
    if any(row["restriction"] for row in rows):
        used = f"{len(source.traffic):,} of {count(len(rows), 'sample')}, {source.frames:,} of {count(frames, 'frame')}"
        told.insert(3, ("In traffic statistics", used + restrictions.named(source)))
    if starts:
        first, last = min(starts), max(ends)
        watched = sum(row["duration_ns"] for row in rows if row["duration_ns"] is not None)
        told.append(("Captured", f"{utc(first)} to {utc(last)} UTC ({nanoseconds(last - first)})"))
        # A file alone tells when its frames were, not for how long somebody listened.
        told.append(("First to last frame, files added up" if files else "Time in samples", nanoseconds(watched)))
    snaplens = sorted({row["snaplen"] for row in rows if row["snaplen"] is not None})
    told.append(("Snap length", ", ".join(f"{value:,} B" for value in snaplens) or "unknown"))
    told.append(("Dissection engine", ", ".join(sorted({row["engine"] for row in rows})) or "none"))
    return told


def utc(stamp_ns: int) -> str:
    """A time of day to the second."""
    return datetime.fromtimestamp(stamp_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S")
