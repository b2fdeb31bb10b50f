"""What stands under the titles of figures of flow reports: how much was reported, and what of it was lost."""

from .source import Source
from .wording import count, percent


def counted(source: Source, stage: str, counter: str) -> int:
    """A counter, summed over the samples; 0 where no run has it."""
    return sum(
        row["value"] for row in source.rows("flowreport_counts") if (row["stage"], row["counter"]) == (stage, counter)
    )


def scope(source: Source) -> tuple[str, ...]:
    """``3 samples, 24,000 frames, 9,120 reports``; losses of reports."""
    samples = {row["sample"] for row in source.rows("flowreport_counts")}
    sent, taken = counted(source, "balance", "reports_sent"), counted(source, "balance", "reports_accepted")
    frames = counted(source, "balance", "frames_in")
    lost = "none" if sent == taken else percent((sent - taken) / sent)
    parts = (count(len(samples), "sample"), count(frames, "frame"), count(sent, "report"))
    return (f"{', '.join(parts)}; losses: {lost} of the reports",)
