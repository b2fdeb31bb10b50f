"""Histograms of the differences between trials, on signed logarithmic bins."""

import math

import altair as alt

from acapella.common.wording import count, nanoseconds, percent, short_labels, span

from . import theme
from .comparison import MARK, environments, pairs, runs_against_first, trial_labels, trials_without_cpu
from .compose import Figure
from .rows import Rows
from .source import NoData, Source

BINS_PER_DECADE = 5
MAX_LABEL = 40
MAX_TRIAL_LABEL = 24  # characters of a trial's name in a legend
PALETTE = (theme.BLUE, theme.VERMILION, theme.GREEN, theme.ORANGE, theme.SKY, theme.PURPLE, theme.BLACK)
MAX_NAMED_RUNS = len(PALETTE)  # runs with separate colors; if there are more, all are gray
UNNAMED_RUN = "each run"
MIN_BINS, MIN_SHARE = 10, 0.5  # bins of each sign, and %: minimum extent of the axes
FLOOR = 0.4  # the axis begins at this fraction of the smallest drawn share, or at MIN_SHARE if that is lower
MAX_NAMED_ENVIRONMENTS = 4  # environments in the title; if there are more, only the smallest and the largest
MAX_STACKED_PANELS, PANELS_PER_ROW = 8, 3  # panels in one column; panels per row if there are more
SPACING = 14  # px: distance between panels
SMALL_WIDTH, SMALL_HEIGHT = 150, 90  # px: size of a small panel
BOUND_NS = 10  # differences within this bound are shaded: 10 ns in the CHOIR paper (sections 6 and 7)
SHADE = "#EAF1F6"
LABEL_STEPS = (1, 2, 3, 6)  # decades between two tick labels
TICK_LABEL = theme.text_width(["\u2212100 ms"]) + 6  # px: width of a tick label with spacing


def draw(source: Source, measure: str, name: str) -> Figure:
    """Draw a panel per environment and a line per run. The axis of shares is logarithmic, so outliers are visible."""
    compared = runs_against_first(pairs(source))
    rows = [row for row in runs_against_first(source.rows("consistency_deltas")) if row["measure"] == measure]
    if not rows:
        raise NoData("no run has a packet in common with its first trial")
    bound, shares = shares_within(source, measure)
    labels = short_labels(environments(source), MAX_LABEL)
    last_bin = max(MIN_BINS, *(abs(row["bin"]) for row in rows))
    min_share = min(MIN_SHARE, 100 * FLOOR * min(row["share"] for row in rows))
    trials = trial_labels(source, MAX_TRIAL_LABEL)
    without_cpu = trials_without_cpu(source)
    drawn = {trials[row["environment"], row["b"]] for row in rows}
    with_packets = [env for env in labels if any(row["environment"] == env for row in rows)]
    columns = 1 if len(with_packets) <= MAX_STACKED_PANELS else PANELS_PER_ROW
    with_legend = columns == 1 and len({row["b"] for row in rows}) <= MAX_NAMED_RUNS
    width = theme.WIDTH - 100 - (theme.text_width(drawn) if with_legend else 0) if columns == 1 else SMALL_WIDTH
    panels = []
    for environment in with_packets:
        environment_rows = [row for row in rows if row["environment"] == environment]
        numbers = sorted({row["b"] for row in environment_rows})
        values = [
            point
            for b in numbers
            for point in histogram_outline(environment_rows, b, trials[environment, b], min_share)
        ]
        legend = [trials[environment, b] for b in numbers] if with_legend else []
        last = columns > 1 or environment == with_packets[-1]
        lines = panel(values, legend, (last_bin, min_share, width), name, last, len(with_packets))
        lost = sum((environment, number) in without_cpu for number in numbers)
        heading = f"{labels[environment]} ({count(len(numbers), 'run')}{f', {lost} {MARK}' if lost else ''})"
        panels.append(mark_bound(lines, bound, last_bin, (heading, within_text(shares.get(environment, []), bound))))
    key = (
        f"Difference: the run's {name} minus that of the first trial. Bins are logarithmic, five per decade for "
        "each sign; the middle bin is exactly 0; bins without packets have no line.",
        *(() if with_legend else ("One gray line per run.",)),
        f"Shares of the packets in common, on a logarithmic axis. Shaded: within \u00b1{nanoseconds(bound)}.",
        *runs_without_common_packets(compared, rows, trials),
    )
    chart = alt.vconcat(*panels, spacing=10) if columns == 1 else alt.concat(*panels, columns=columns, spacing=SPACING)
    chart = chart.resolve_scale(x="shared", y="shared", color="independent")
    return Figure(title(compared, measure, name, labels, trials), chart, key)


def shares_within(source: Source, measure: str) -> tuple[int, dict[str, list[float]]]:
    """Return the marked bound in ns, and the share of packets within it for each run, by environment.

    The bound is 10 ns, as in the CHOIR paper, or the smallest bound in the table if it does not contain 10 ns.
    """
    rows = [row for row in runs_against_first(source.rows("consistency_within")) if row["measure"] == measure]
    bounds = {row["bound_ns"] for row in rows}
    bound = BOUND_NS if BOUND_NS in bounds or not bounds else min(bounds)
    shares: dict[str, list[float]] = {}
    for row in rows:
        if row["bound_ns"] == bound and row["share"] is not None:
            shares.setdefault(row["environment"], []).append(row["share"])
    return bound, shares


def within_text(shares: list[float], bound: int) -> str:
    """Return shares as text: ``83.1 % to 85.0 % of packets within ±10 ns``; empty without shares."""
    if not shares:
        return ""
    low, high = percent(min(shares)), percent(max(shares))
    return f"{span(low, high)} of packets within \u00b1{nanoseconds(bound)}"


def title(compared: list[dict], measure: str, name: str, labels: dict, trials: dict) -> str:
    """Return the title: the range of the runs' mean absolute differences, by environment unless there are many."""
    column = f"{measure}_delta_mean_ns"
    defined = [row for row in compared if row[column] is not None]
    means = {env: [row[column] for row in defined if row["environment"] == env] for env in labels}
    means = {env: values for env, values in means.items() if values}
    measure_text = f"Mean absolute difference of {name} from the first trial"
    if len(means) > MAX_NAMED_ENVIRONMENTS:
        low, high = (end(defined, key=lambda row: row[column]) for end in (min, max))
        ends = [mean_text(row[column]) for row in (low, high)]
        if ends[0] == ends[1]:
            return f"{measure_text}: {ends[0]} in each run of {count(len(means), 'environment')}"
        low, high = (f"{end} (run {run_label(row, trials)})" for end, row in zip(ends, (low, high), strict=True))
        return f"{measure_text}: {low} to {high}"
    parts = [
        f"{span(*(mean_text(end(values)) for end in (min, max)))} ({labels[env]}, {count(len(values), 'run')})"
        for env, values in means.items()
    ]
    return f"{measure_text}: {', '.join(parts)}"


def run_label(row: dict, trials: dict[tuple[str, int], str]) -> str:
    """Return the label of the run of a pair."""
    return trials[row["environment"], row["b"]]


def mean_text(value: float) -> str:
    """Return a mean as text; below 10 ns with two significant digits."""
    return nanoseconds(round(value)) if value >= 9.95 or value == 0 else f"{value:.2g}\N{NO-BREAK SPACE}ns"


def runs_without_common_packets(compared: list[dict], rows: list[dict], trials: dict) -> tuple[str, ...]:
    """Return a note on runs without common packets; they are not drawn."""
    drawn = {(row["environment"], row["b"]) for row in rows}
    absent = [trials[run] for row in compared if (run := (row["environment"], row["b"])) not in drawn]
    return (f"No packets in common: {', '.join(absent)}.",) if absent else ()


def histogram_outline(rows: list[dict], trial: int, run: str, min_share: float) -> list[dict]:
    """Return the outline of a run's histogram, with one piece for each block of adjacent nonempty bins."""
    points, previous = [], None
    for row in sorted((row for row in rows if row["b"] == trial), key=lambda row: row["bin"]):
        common = {"run": run, "text": percent(row["share"]), "range": range_text(row)}
        low, high, share = row["bin"] - 0.5, row["bin"] + 0.5, 100 * row["share"]
        if previous is None or previous["bin"] + 1 != row["bin"]:
            points += [{**points[-1], "share": min_share}] if points else []
            common["piece"] = f"{trial}/{row['bin']}"
            points.append({**common, "bin": low, "share": min_share})
        common["piece"] = points[-1]["piece"]
        points += [{**common, "bin": low, "share": share}, {**common, "bin": high, "share": share}]
        previous = row
    return [{**point, "order": order} for order, point in enumerate([*points, {**points[-1], "share": min_share}])]


def ticks(last_bin: int, width: int) -> tuple[list[float], str]:
    """Return the positions of ticks (0, and powers of ten from 10 ns), and the Vega expression of their labels.

    Every power of ten has a tick. Depending on the width, each, or every second, third or sixth tick has a label.
    """
    last = (2 * last_bin + 1) // (2 * BINS_PER_DECADE)  # the axis ends at last_bin + 1
    decade_width = BINS_PER_DECADE * width / (2 * (last_bin + 1))  # px per decade
    step = next((step for step in LABEL_STEPS if step * decade_width >= TICK_LABEL), LABEL_STEPS[-1])
    positions = [BINS_PER_DECADE * power + 0.5 for power in range(1, last + 1)]
    values = [*(-position for position in reversed(positions)), 0, *positions]
    power = f"round((abs(datum.value) - 0.5) / {BINS_PER_DECADE})"
    units = "['ns', 'µs', 'ms', 's', '1000 s', '10⁶ s']"
    size = f"format(pow(10, {power} % 3), 'd') + ' ' + {units}[floor({power} / 3)]"
    text = f"(datum.value < 0 ? '\u2212' : '') + {size}"
    return values, f"datum.value == 0 ? '0' : {power} % {min(step, last)} == 0 ? {text} : ''"


def range_text(row: dict) -> str:
    """Return the range of a bin as text."""
    low, high = row["lo_ns"], row["hi_ns"]
    if low is None or high is None:
        return f"{low if high is None else high:,} ns and beyond"
    return f"{low:,} ns" if low == high else f"{low:,} to {high:,} ns"


def share_ticks(min_share: float) -> list[float]:
    """Return the powers of ten from a share in % to 100 %."""
    return [10.0**power for power in range(math.ceil(math.log10(min_share)), 3)]


def mark_bound(lines: alt.Chart, bound: int, last_bin: int, head: tuple[str, str]) -> alt.LayerChart:
    """Return a panel with its heading; the range of differences within the bound is shaded."""
    position = min(last_bin + 1, BINS_PER_DECADE * math.log10(bound) + 0.5)
    shade = (
        alt.Chart(Rows(values=[{"low": -position, "high": position}]))
        .mark_rect(color=SHADE)
        .encode(x="low:Q", x2="high:Q")
    )
    edges = alt.Chart(Rows(values=[{"bin": -position}, {"bin": position}])).mark_rule(
        color=theme.GRAY, strokeDash=[3, 3]
    )
    small = lines.width == SMALL_WIDTH
    texts = {"text": head[0], "subtitle": head[1]} if small else {"text": ": ".join(part for part in head if part)}
    title = alt.TitleParams(
        **texts, fontSize=theme.TEXT, subtitleFontSize=theme.SMALL, offset=2, frame="group", color=theme.INK
    )
    return (shade + edges.encode(x="bin:Q") + lines).properties(title=title)


def panel(values, names, limits, name, last, panel_count) -> alt.Chart:  # noqa: PLR0913, PLR0917
    """Return the lines of one environment. ``last``: draw labels on the axis of differences."""
    last_bin, min_share, width = limits
    positions, text = ticks(last_bin, width)
    with_legend = bool(names)
    domain = names or [UNNAMED_RUN]
    colors = list(PALETTE[: len(names)]) if with_legend else ["#8A8A8A"]
    field = "run:N" if with_legend else "all:N"
    legend = alt.Legend(title="run", orient="right", symbolType="stroke", symbolSize=200) if with_legend else None
    axis = alt.Axis(
        **{
            "values": positions,
            "labelExpr": text,
            "labels": last,
            "ticks": last,
            "domain": False,
            "labelOverlap": False,
        },
        tickCount=len(positions),  # with a smaller tickCount, Vega omits some of ``values``
    )
    return (
        alt.Chart(Rows(values=values if with_legend else [{**value, "all": UNNAMED_RUN} for value in values]))
        .mark_line(interpolate="linear", strokeWidth=1.4, clip=True)
        .encode(
            x=alt.X(
                "bin:Q",
                title=f"difference of {name}" if last else None,
                scale=alt.Scale(domain=[-last_bin - 1, last_bin + 1], nice=False),
                axis=axis,
            ),
            y=alt.Y(
                "share:Q",
                title="packets (%)",
                scale=alt.Scale(type="log", domain=[min_share, 100], nice=False, clamp=True),
                axis=alt.Axis(
                    labelExpr="format(datum.value, '~r')", values=share_ticks(min_share), domain=False, minExtent=40
                ),
            ),
            color=alt.Color(field, sort=domain, scale=alt.Scale(domain=domain, range=colors), legend=legend),
            detail=["run:N", "piece:N"],
            order="order:Q",
            tooltip=[
                *(alt.Tooltip("run:N"), alt.Tooltip("range:N", title="difference")),
                alt.Tooltip("text:N", title="packets in common"),
            ],
        )
        .properties(width=width, height=SMALL_HEIGHT if width == SMALL_WIDTH else max(70, min(190, 420 // panel_count)))
    )
