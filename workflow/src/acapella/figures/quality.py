"""Writes the subtitles of figures: numbers of samples and frames, and losses."""

from acapella.common.wording import count, nanoseconds, percent, span

from . import restrictions
from .source import Source, sites_of

STAGES = 4  # number of stages with loss counters: mirror, interface, kernel, file


def scope(source: Source) -> tuple[str, ...]:
    """Return numbers and losses of the samples in traffic statistics, and the number of excluded samples."""
    return (sample_summary(source.traffic), *restricted_samples(source), loss_summary(source.traffic))


def scope_of_all(source: Source) -> tuple[str, ...]:
    """Return the numbers and losses of all samples."""
    return sample_summary(source.quality), loss_summary(source.quality)


def restricted_samples(source: Source) -> list[str]:
    """Return ``excluded: 10 samples, 30,000 frames (trial, filter)``; [] if every sample counts.

    If restricted and unrestricted samples count, the restricted ones are listed as ``included: ...``.
    """
    groups = {"excluded": source.excluded}
    if not restrictions.only_restricted(source):
        groups["included"] = [row for row in source.traffic if row["restriction"] is not None]
    return [
        f"{name}: {count(len(rows), 'sample')}, {count(sum(row['frames'] for row in rows), 'frame')} "
        f"({restrictions.describe_all(rows)})"
        for name, rows in groups.items()
        if rows
    ]


def sample_summary(rows: list[dict]) -> str:
    """Return ``12 samples (20 s each) of 3 sites, 24,000 frames`` for rows of capture_quality."""
    lengths = sorted(row["duration_ns"] for row in rows if row["duration_ns"] is not None)
    length_text = ""
    if lengths:
        median = nanoseconds(lengths[(len(lengths) - 1) // 2])
        length_text = (
            f" (median {median})" if lengths[0] != lengths[-1] else f" ({median}{' each' if len(rows) > 1 else ''})"
        )
    sites = count(len(sites_of(rows)), "site")
    return f"{count(len(rows), 'sample')}{length_text} of {sites}, {count(sum(row['frames'] for row in rows), 'frame')}"


def without_times(source: Source) -> list[str]:
    """Return a note on samples without timestamps for figures over time; [] if there are none."""
    number = sum(0 < row["frames"] == row["untimed_frames"] for row in source.traffic)
    return [f"{count(number, 'sample')} without timestamps omitted"] if number else []


def time_range(rows: list[dict]) -> tuple[int, int] | None:
    """Return first start and last end of the samples that are not misdated, from rows of capture_quality.

    None if no such sample has a time.
    """
    dated = [row for row in rows if row["actual_start_ns"] is not None and not row["misdated"]]
    if not dated:
        return None
    return min(row["actual_start_ns"] for row in dated), max(row["actual_end_ns"] for row in dated)


def offered_frames(row: dict) -> int:
    """Return the number of frames offered to the capture, including those that a filter or sampling omits, if
    counted."""
    return max(row["mirror_offered"] or 0, row["lost_frames"] + row["frames"] + (row["sampled_out"] or 0))


def loss_summary(rows: list[dict]) -> str:
    """Return ``losses: 0.03 % of offered frames; unknown in 2 of 12 samples``. Unknown losses do not count as 0.

    ``rows``: rows of capture_quality.
    """
    with_counters = [row for row in rows if row["lost_frames"] is not None]
    if not rows:
        return "losses: no samples"
    mirror = mirror_loss(rows)
    if not with_counters:
        return "; ".join(["losses: unknown (no sample has a counter of mirror, interface or kernel)", *mirror])
    lost = sum(row["lost_frames"] for row in with_counters)
    share = sum((row["loss_share"] or 0) * offered_frames(row) for row in with_counters) / (
        sum(map(offered_frames, with_counters)) or 1
    )
    partly_counted = sum(row["loss_stages_known"] < STAGES for row in with_counters)
    text = "losses: none counted" if mirror or partly_counted else "losses: none seen"
    if lost:
        bound = "at least " if partly_counted or any(map(mirror_loss_uncounted, rows)) else ""
        text = f"losses: {bound}{percent(share)} of offered frames"
    unknown = len(rows) - len(with_counters)
    gaps = [
        f"{kind} in {number:,}" for kind, number in (("unknown", unknown), ("partly counted", partly_counted)) if number
    ]
    if gaps:
        text += f"; {' and '.join(gaps)} of {count(len(rows), 'sample')}"
    return "; ".join([text, *mirror])


def mirror_loss(rows: list[dict]) -> list[str]:
    """Return ``mirror congested in 3 samples (at least 5 % of bytes missing, ...), at risk in 2 samples``, or []."""
    congested = [row for row in rows if row["mirror_verdict"] == "congested"]
    risky = sum(row["mirror_verdict"] == "at risk" for row in rows)
    parts = []
    if congested:
        parts.append(f"congested in {count(len(congested), 'sample')} ({mirror_loss_bounds(congested)})")
    if risky:
        parts.append(f"at risk in {count(risky, 'sample')}")
    return [f"mirror {', '.join(parts)}"] if parts else []


def mirror_loss_uncounted(row: dict) -> bool:
    """Return whether a mirror that is congested or at risk lacks counters, or may have lost frames that they omit.

    ``mirror_loss_low`` is a share of bytes, so it is compared with byte counters if available, else frame counters.
    """
    if row["mirror_verdict"] not in ("congested", "at risk"):
        return False
    if row["mirror_offered"] is None or row["mirror_delivered"] is None:
        return True
    if row["mirror_loss_low"] is None:
        return False
    counters = [(row[f"mirror_offered{kind}"], row[f"mirror_delivered{kind}"]) for kind in ("_bytes", "")]
    counted_loss = next(
        (1 - delivered / offered for offered, delivered in counters if offered and delivered is not None), 0.0
    )
    return counted_loss < row["mirror_loss_low"]


def mirror_loss_bounds(rows: list[dict]) -> str:
    """Return ``at least 5 % to 30 % of bytes missing, at most 42 % to 90 % lost by the mirror``: ranges over samples.

    Missing bytes may have been lost before the mirror. No sample is reported as the worst: the intervals may overlap.
    """
    bounds = ([row[f"mirror_loss_{end}"] for row in rows] for end in ("low", "high"))
    low, high = (span(percent(min(shares)), percent(max(shares))) for shares in bounds)
    return f"at least {low} of bytes missing, at most {high} lost by the mirror"
