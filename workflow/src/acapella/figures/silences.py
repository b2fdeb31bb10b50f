"""Describes silences: long times without frames inside a sample, which may not have been captured.

Causes are a capture that was merged from several captures, or a wrong clock. Captures of testbed `files` have no known
start and end, so that a silence cannot be distinguished from an idle port.
"""

from acapella.campaign.process import MAX_SILENT_BINS
from acapella.common.wording import count, nanoseconds

from .source import Source

MIN_SHARE = 0.5  # of a sample's duration: above it, duration and coverage describe silences rather than traffic
MAX_NAMED = 3  # samples named in a subtitle


def mostly_silent(rows: list[dict]) -> list[dict]:
    """Return the samples whose silences are more than half of their duration, from rows of capture_quality."""
    return [row for row in rows if row["silence_ns"] and row["silence_ns"] > MIN_SHARE * row["duration_ns"]]


def has_empty_bins(row: dict, bin_ns: int) -> bool:
    """Return whether table throughput has rows for the silences of a sample, so that its figure draws them.

    This is the condition in workflow/sql/process/throughput.sql. ``row``: a row of capture_quality.
    """
    return row["actual_by"] == "frames" and row["duration_ns"] // bin_ns < MAX_SILENT_BINS


def bin_length(source: Source) -> int | None:
    """Return the length of the bins of table throughput in ns; None if it has no rows."""
    table = source.table("throughput")
    return table["bin_ns"][0].as_py() if table.num_rows else None


def throughput_notes(samples: list[dict], bin_ns: int, *, gapless: bool) -> list[str]:
    """Return the notes on time without frames that figure throughput omits, or draws as captured.

    Omitted time is always noted, drawn time only for samples that are mostly silent. The figure omits misdated samples,
    unless there are no others. ``samples``: rows of capture_quality; ``gapless``: whether omitted time is also removed
    from the axis.
    """
    timed = [row for row in samples if row["duration_ns"] is not None]
    timed = [row for row in timed if not row["misdated"]] or timed
    without_bins = [row for row in timed if not has_empty_bins(row, bin_ns)]
    omitted = [row for row in without_bins if row["silence_ns"] or row["actual_by"] == "frames"]
    drawn = [row for row in mostly_silent(timed) if has_empty_bins(row, bin_ns)]
    treatment = "omitted" if gapless else "also blank"
    return [
        f"{text} in {sample_list(rows)}"
        for text, rows in (
            (f"{treatment}, and not in rates: time without frames", omitted),
            ("drawn as captured, but perhaps not captured: time without frames", drawn),
        )
        if rows
    ]


def coverage_notes(samples: list[dict]) -> tuple[str, ...]:
    """Return the note on samples whose coverage is mostly a silence. ``samples``: rows of capture_quality."""
    silent = [row for row in mostly_silent(samples) if not row["misdated"]]
    return (f"Time captured includes time without frames in {sample_list(silent)}.",) if silent else ()


def sample_list(rows: list[dict]) -> str:
    """Return samples with the total length of their silences, if any, the longest first: ``merged (369 d)``."""
    lengths = sorted(((row["silence_ns"] or 0, row["sample"]) for row in rows), key=lambda pair: -pair[0])
    parts = [name + (f" ({nanoseconds(length)})" if length else "") for length, name in lengths[:MAX_NAMED]]
    more = len(lengths) - MAX_NAMED
    return ", ".join(parts) + (f" and {count(more, 'further sample')}" if more > 0 else "")
