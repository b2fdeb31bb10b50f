"""Figure flowreport_rate of the report, described by ABOUT."""

import altair as alt

from acapella.common.wording import GAP, digits, short_labels, span

from . import theme
from .compose import Figure
from .flowreport_scope import scope
from .rows import Rows
from .source import NoData, Source

SUBJECT = "Reports per second"
ABOUT = "Number of reports in each second of a capture (P4/RDMA, figure 7a)."
TABLE = "flowreport_seconds"
COLUMNS = ("second", "whole", "reports", "probes")
SCOPE = scope
COLORS = (theme.BLUE, theme.VERMILION, theme.GREEN, theme.ORANGE, theme.PURPLE, theme.SKY)
PAPER_RANGE = (39_000, 104_000)  # section IV-C: averages of four backbone traces
HEIGHT, MAX_LABEL = 230, 30
MILLIONS_FROM = 10**7  # the title gives numbers of at least this value in millions
LOG_AXIS_RATIO = 20  # ratio of the largest to the smallest count above which the axis is logarithmic
SHARE_TITLE = "seconds with at most x reports (%)"
MARGIN = 0.04  # fraction of the range of counts by which the axis exceeds it at each end


def draw(source: Source) -> Figure:
    """Draw one cumulative distribution per sample."""
    rows = source.rows(TABLE)
    if not rows:
        raise NoData("no sample has frames")
    values = [step for name in dict.fromkeys(row["sample"] for row in rows) for step in distribution(name, rows)]
    labels = short_labels(dict.fromkeys(value["sample"] for value in values), MAX_LABEL)
    for value in values:
        value["label"] = labels[value["sample"]]
    tooltip_note = "" if len(labels) <= len(COLORS) else "; tooltips in the .html file name the samples"
    key = (
        f"One line per sample; 100 % are its seconds with packets{tooltip_note}. Not included: seconds without "
        "packets, and reports that the control plane requests when it resets the sketch. The last, incomplete second "
        "of a capture is in the line and the maximum, but not in the mean. The P4/RDMA paper reports averages of "
        f"{PAPER_RANGE[0]:,} to {PAPER_RANGE[1]:,} reports/s of traces of a backbone ({paper_range_text(values)}).",
    )
    return Figure(title(rows), alt.hconcat(chart(values, list(labels.values()))), key)


def distribution(sample: str, rows: list[dict]) -> list[dict]:
    """Return the steps of the cumulative distribution of a sample, in ascending order."""
    counts = sorted(row["reports"] for row in rows if row["sample"] == sample)
    first = {"sample": sample, "reports": counts[0], "share": 0.0, "order": 0}
    return [first] + [
        {"sample": sample, "reports": number, "share": 100 * rank / len(counts), "order": rank}
        for rank, number in enumerate(counts, 1)
    ]


def mean_reports(sample: str, rows: list[dict]) -> float:
    """Return the mean of a sample's complete seconds, in reports/s; of its incomplete second if none is complete."""
    sample_rows = [row for row in rows if row["sample"] == sample]
    counts = [row["reports"] for row in sample_rows if row["whole"]] or [row["reports"] for row in sample_rows]
    return sum(counts) / len(counts)


def title(rows: list[dict]) -> str:
    """Return the title: the mean of the sample, or the range of the samples' means, and the maximum in any second."""
    means = [mean_reports(name, rows) for name in {row["sample"] for row in rows}]
    range_of_means = span(f"{format_count(min(means))} reports/s", f"{format_count(max(means))} reports/s")
    per_sample = " of a sample" if len(means) > 1 else ""
    maximum = format_count(max(row["reports"] for row in rows))
    return f"Mean{per_sample}: {range_of_means}; at most {maximum} in one second"


def format_count(number: float) -> str:
    """Return a number of reports as text: ``1,860``; with eight or more digits, ``106 million``."""
    return f"{number:,.0f}" if number < MILLIONS_FROM else f"{digits(number / 1e6)}{GAP}million"


def axis_ends(counts: list[int]) -> tuple[bool, list[float]]:
    """Return whether the axis is logarithmic, and its ends: the range of the counts plus a margin."""
    low, high = min(counts), max(counts)
    if low > 0 and high > LOG_AXIS_RATIO * low:
        margin = (high / low) ** MARGIN
        return True, [low / margin, high * margin]
    margin = MARGIN * (high - low) or max(1, MARGIN * high)
    return False, [max(0, low - margin), high + margin]


def visible_paper_range(ends: list[float]) -> list[float]:
    """Return the ends of the visible part of the paper's range; empty if it is outside the axis."""
    low, high = max(PAPER_RANGE[0], ends[0]), min(PAPER_RANGE[1], ends[1])
    return [low, high] if low < high else []


def paper_range_text(values: list[dict]) -> str:
    """Return a note on how the paper's range is drawn."""
    return "gray" if visible_paper_range(axis_ends([value["reports"] for value in values])[1]) else "outside the axis"


def chart(values: list[dict], labels: list[str]) -> alt.LayerChart:
    """Return the lines over the shaded range of the paper."""
    many = len(labels) > len(COLORS)
    color = (
        alt.value(theme.BLUE)
        if many
        else alt.Color(
            "label:N",
            scale=alt.Scale(domain=labels, range=list(COLORS[: len(labels)])),
            legend=alt.Legend(
                title=None, orient="bottom", columns=3, symbolType="stroke", symbolSize=200, labelLimit=170
            ),
        )
    )
    logarithmic, ends = axis_ends([value["reports"] for value in values])
    scale = alt.Scale(type="log" if logarithmic else "linear", domain=ends, zero=False, nice=False)
    lines = (
        alt.Chart(Rows(values=values))
        .mark_line(strokeWidth=1.6, interpolate="step-after", opacity=0.6 if many else 1)
        .encode(
            x=alt.X(
                "reports:Q", title="x: reports in one second", axis=alt.Axis(format=",~f", tickCount=8), scale=scale
            ),
            y=alt.Y("share:Q", title=SHARE_TITLE, scale=alt.Scale(domain=[0, 100])),
            color=color,
            detail="label:N",
            order="order:Q",
            tooltip=["label:N", alt.Tooltip("reports:Q", format=","), alt.Tooltip("share:Q", format=".3~g")],
        )
    )
    width = theme.WIDTH - 70
    paper_range = visible_paper_range(ends)
    if not paper_range:
        return alt.layer(lines).properties(width=width, height=HEIGHT)
    band = (
        alt.Chart(Rows(values=[{"low": paper_range[0], "high": paper_range[1]}]))
        .mark_rect(color=theme.GRID, opacity=0.7)
        .encode(x="low:Q", x2="high:Q")
    )
    return alt.layer(band, lines).properties(width=width, height=HEIGHT)
