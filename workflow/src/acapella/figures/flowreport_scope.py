"""Writes notes under the titles of figures of flow reports: numbers of frames and reports, and reports not accepted."""

from acapella.common.wording import count, percent

from .source import Source


def counter_sum(source: Source, stage: str, counter: str) -> int:
    """Return a counter, summed over the samples; 0 if no sample has it."""
    return sum(
        row["value"] for row in source.rows("flowreport_counts") if (row["stage"], row["counter"]) == (stage, counter)
    )


def scope(source: Source) -> tuple[str, ...]:
    """Return ``3 samples, 24,000 frames, 9,120 reports`` and the share of reports that the collector did not accept."""
    samples = {row["sample"] for row in source.rows("flowreport_counts")}
    sent, accepted_reports = (
        counter_sum(source, "balance", "reports_sent"),
        counter_sum(source, "balance", "reports_accepted"),
    )
    frames = counter_sum(source, "balance", "frames_in")
    parts = (count(len(samples), "sample"), count(frames, "frame"), reports_text(sent, accepted_reports))
    return (", ".join(parts),)


def reports_text(sent: int, accepted: int) -> str:
    """Return ``9,120 reports (not accepted by the collector: 28, 0.31 %)``; the share is of all reports."""
    lost = "none" if sent == accepted else f"{count(sent - accepted)}, {percent((sent - accepted) / sent)}"
    return f"{count(sent, 'report')} (not accepted by the collector: {lost})"
