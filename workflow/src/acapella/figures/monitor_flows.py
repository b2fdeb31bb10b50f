"""Figure monitor_flows of the report, described by ABOUT."""

from collections import Counter

import altair as alt

from acapella.common.wording import count, percent, short_labels

from . import monitor_scope, theme
from .compose import Figure
from .rows import Rows
from .source import NoData, Source

SUBJECT = "Loss, reordering, latency and jitter of generated flows"
ABOUT = "Loss, reordering, latency and jitter of each generated flow, for each trial."
TABLE = "monitor_flows"
COLUMNS = ("port", "flow", "name", "expected", "unclassified", "lost", "reordered", "latency_mean_ns", "jitter_ns")
SCOPE = monitor_scope.scope
MAX_FLOWS = 16
MAX_LABEL = 20
SPACING = 14  # px: between panels
LEAST_US = 0.01  # smaller times are drawn at this value
PANELS = {  # title of an axis, and whether it is logarithmic
    "lost": ("lost (% of sent)", False),
    "reordered": ("reordered (% of arrived)", False),
    "latency": ("mean latency (µs)", True),
    "jitter": ("jitter (µs)", True),
}


def draw(source: Source) -> Figure:
    """Draw a row per flow in a panel for each quantity, with a mark for each trial."""
    names = monitor_scope.environments(source)
    rows = [row for row in source.rows(TABLE) if row["lost"] is not None and (row["expected"] or row["unique"])]
    if not rows:
        raise NoData("no flow has a stamp")
    flows = flows_with_largest_loss(rows)
    label_of = labels_of(rows)
    labels = short_labels([*dict.fromkeys(label_of[row["flow"]] for row in rows if row["flow"] in flows)], MAX_LABEL)
    values = [
        {**point, "label": labels[label_of[row["flow"]]], "environment": names[row["port"]]}
        for row in rows
        if row["flow"] in flows
        for point in points(row)
    ]
    number = len({row["flow"] for row in rows})
    shown_note = (f"The {MAX_FLOWS} flows of {number:,} with the largest loss.",) if number > MAX_FLOWS else ()
    key = (
        "One mark per trial. Reordered: RFC 4737. Jitter: RFC 3550. Axes of latency and jitter are logarithmic; "
        "latency contains the offset between the clocks of sender and receiver.",
        *((f"Smaller and negative times are drawn at {LEAST_US:g} µs.",) if has_clamped_times(rows, flows) else ()),
        *shown_note,
    )
    return Figure(title(rows), chart(values, list(labels.values()), monitor_scope.unique_environments(names)), key)


def labels_of(rows: list[dict]) -> dict[int, str]:
    """Return the label of each flow: its name, and its index if other flows have the same name, or if it has none."""
    names = {row["flow"]: row["name"] for row in rows}
    uses = Counter(names.values())
    return {flow: name if name and uses[name] == 1 else f"{name or 'flow'} {flow}" for flow, name in names.items()}


def flows_with_largest_loss(rows: list[dict]) -> set[int]:
    """Return the flows with the largest loss, at most MAX_FLOWS."""
    lost: dict[int, int] = {}
    for row in rows:
        lost[row["flow"]] = lost.get(row["flow"], 0) + row["lost"]
    return {*sorted(lost, key=lambda flow: (-lost[flow], flow))[:MAX_FLOWS]}


def points(row: dict) -> list[dict]:
    """Return the marks of a flow of a trial; none for unknown values."""
    sent = row["expected"] or row["unique"] + row["lost"]
    value_by_panel = {
        "lost": 100 * row["lost"] / sent,
        "reordered": 100 * row["reordered"] / row["unique"] if row["unique"] else None,
        "latency": None if row["latency_mean_ns"] is None else max(LEAST_US, row["latency_mean_ns"] / 1000),
        "jitter": None if row["jitter_ns"] is None else max(LEAST_US, row["jitter_ns"] / 1000),
    }
    return [{"panel": name, "value": value} for name, value in value_by_panel.items() if value is not None]


def has_clamped_times(rows: list[dict], flows: set[int]) -> bool:
    """Return whether a time of these flows is below LEAST_US."""
    times = (row[name] for row in rows if row["flow"] in flows for name in ("latency_mean_ns", "jitter_ns"))
    return any(time is not None and time < 1000 * LEAST_US for time in times)


def title(rows: list[dict]) -> str:
    """Return the title: the share of lost packets, and the number of flows that lost some.

    More packets may be lost if the number of sent packets is unknown, or if packets are unclassified.
    """
    sent = sum(row["expected"] or row["unique"] + row["lost"] for row in rows)
    lost = sum(row["lost"] for row in rows)
    flows = {row["flow"] for row in rows if row["lost"]}
    exact = all(row["expected"] is not None and not row["unclassified"] for row in rows)
    if not lost:
        return f"None of {count(sent, 'packet')} was lost" if exact else "No packet is known to be lost"
    share = f"{'' if exact else 'At least '}{percent(lost / sent)}"
    return f"{share} of {count(sent, 'packet')} were lost, in {count(len(flows), 'flow')}"


def chart(values: list[dict], labels: list[str], names: list[str]) -> alt.HConcatChart:
    """Return the panels from left to right."""
    label_width = theme.text_width(labels) + 10
    width = (theme.WIDTH - label_width - (len(PANELS) - 1) * SPACING - 20) // len(PANELS)
    parts = [
        panel([value for value in values if value["panel"] == name], name, labels, names, first=number == 0)
        .properties(width=width, height=alt.Step(theme.row_height(len(labels), low=16, high=30)))
        for number, name in enumerate(PANELS)
    ]  # fmt: skip
    return alt.hconcat(*parts, spacing=SPACING)


def panel(values: list[dict], name: str, labels: list[str], names: list[str], *, first: bool) -> alt.Chart:
    """Return the panel of a quantity."""
    text, logarithmic = PANELS[name]
    high = max((value["value"] for value in values), default=1)
    low = min((value["value"] for value in values), default=LEAST_US)
    scale = (
        alt.Scale(type="log", domain=[0.8 * low, 1.25 * high], nice=False)
        if logarithmic
        else alt.Scale(domain=[-0.04 * (high or 1), 1.05 * high or 1], nice=False)
    )
    ticks = {"values": monitor_scope.ticks(0.8 * low, 1.25 * high)} if logarithmic else {"tickCount": 4}
    axis = alt.Axis(domain=False, labelExpr=theme.SHORT_NUMBERS, labelOverlap=True, **ticks)
    colors = alt.Scale(domain=names, range=[*monitor_scope.COLORS[: len(names)]])
    shapes = alt.Scale(domain=names, range=[*monitor_scope.SHAPES[: len(names)]])
    legend = alt.Legend(title="environment", orient="bottom")
    return (
        alt.Chart(Rows(values=values))
        .mark_point(size=34, opacity=0.9, clip=True)
        .encode(
            x=alt.X("value:Q", title=text, scale=scale, axis=axis),
            y=alt.Y(
                "label:N",
                sort=labels,
                title=None,
                scale=alt.Scale(domain=labels),
                axis=alt.Axis(labels=first, ticks=False, domain=False, grid=True),
            ),
            color=alt.Color("environment:N", sort=names, scale=colors, legend=legend),
            shape=alt.Shape("environment:N", sort=names, scale=shapes, legend=legend),
            tooltip=[
                alt.Tooltip("label:N", title="flow"),
                alt.Tooltip("environment:N"),
                alt.Tooltip("value:Q", title=text, format=",.4~g"),
            ],
        )
    )
