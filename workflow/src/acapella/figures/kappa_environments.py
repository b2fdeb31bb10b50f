"""Figure kappa_environments of the report, described by ABOUT."""

import statistics
from collections import Counter

import altair as alt

from acapella.common.wording import count, listed, percent, short_labels, shortened, span
from acapella.kappa.environments import LESS, MORE, TOO_FEW, UNDECIDED

from . import theme
from .comparison import (
    MARK,
    environments,
    environments_with_outlier_baseline,
    lost_cpu_text,
    pairs,
    runs_against_first,
    scope,
)
from .compose import Figure
from .kappa_components import format_kappa
from .rows import Rows
from .source import NoData, Source

SUBJECT = "Environments compared"
ABOUT = "Kappa of the runs of each environment, and mean kappa relative to that of the first one (CHOIR, section 8.2)."
TABLE = "consistency_comparisons"
SCOPE = scope
COLUMNS = ("environment_a", "environment_b", "kappa_b", "relative_difference", "relative_lo", "relative_hi", "verdict")
ONE_TABLE, ONE_COLUMNS = "consistency", ("environment", "trial_b", "kappa")  # origin if there is one environment
MAX_LABEL = 28
MAX_NAMED = 2  # environments that the title compares individually; if there are more, it gives their number
COLORS = {LESS: theme.VERMILION, MORE: theme.BLUE, UNDECIDED: theme.GRAY, TOO_FEW: theme.GRAY}
PANEL_GAP = 12  # px: distance between panels
WITH_CPU, NO_CPU = "had the CPU, or unknown", f"{MARK} lost the CPU"
SHAPES = {WITH_CPU: "circle", NO_CPU: "cross"}
SHORT_VERDICTS = {LESS: "less", MORE: "more"}
MINUS = "\N{MINUS SIGN}"


def draw(source: Source) -> Figure:
    """Draw a row per environment: kappa of its runs, and the difference of their mean from that of the first one.

    If there is only one environment, only kappa of its runs is drawn.
    """
    labels = short_labels(environments(source), MAX_LABEL)
    kappas = run_kappas(source, labels)
    if len(labels) == 1 and kappas:
        chart = run_panel(kappas, list(labels.values()), theme.WIDTH - theme.text_width(labels.values()) - 34)
        return Figure(title_of_one(source, kappas), chart, notes_of_one(source), ONE_TABLE, ONE_COLUMNS)
    rows = [row for row in source.rows(TABLE) if row["place_a"] == 1]
    if not rows:
        raise NoData("no run of the environment has a kappa")
    if all(row["relative_difference"] is None for row in rows):
        raise NoData("no environment has a kappa above 0 to compare with")
    rows.sort(key=lambda row: row["place_b"])
    names = list(labels.values())
    first = rows[0]["environment_a"]
    values = [point_values(row, labels) for row in rows if row["relative_difference"] is not None]
    texts = [{"label": labels[row["environment_b"]], "text": verdict_text(row)} for row in rows]
    texts.append({"label": labels[first], "text": "reference"})
    chart = panels(kappas, values, texts, names, labels[first])
    return Figure(title(source, rows, labels), chart, notes_of(source, rows, labels))


def run_kappas(source: Source, labels: dict[str, str]) -> list[dict]:
    """Return the kappa of each run for the chart, and whether its sender had the CPU."""
    return [
        {
            **{"label": labels[row["environment"]], "kappa": row["kappa"], "run": row["trial_b"]},
            "sender": NO_CPU if row["cpu_lost_a"] or row["cpu_lost_b"] else WITH_CPU,
        }
        for row in runs_against_first(pairs(source))
        if row["kappa"] is not None
    ]


def title_of_one(source: Source, kappas: list[dict]) -> str:
    """Return the title for a single environment: the mean kappa of its runs, and their range."""
    (environment,) = environments(source)
    values = [run["kappa"] for run in kappas]
    mean, low, high = map(format_kappa, (statistics.fmean(values), min(values), max(values)))
    lost = lost_cpu_text(source, [environment])
    runs = f"mean kappa {mean} ({span(low, high)}) of {count(len(values), 'run')}"
    if len(values) == 1:
        runs = f"kappa {mean} of the only run"
    return f"{shortened(environment, MAX_LABEL)}: {runs}" + (f" ({lost})" if lost else "")


def notes_of_one(source: Source) -> tuple[str, ...]:
    """Return notes for a single environment."""
    notes = ["Circle: one run, compared with the first trial; line: their mean"]
    if environments_with_outlier_baseline(source):
        notes.append("the first trial is an outlier, which lowers kappa of all runs")
    notes.append("there is no other environment to compare with")
    return ("; ".join(notes) + ".",)


def point_values(row: dict, labels: dict[str, str]) -> dict:
    """Return the values of a row for the chart, in percent."""
    low, high = row["relative_lo"], row["relative_hi"]
    return {
        "label": labels[row["environment_b"]],
        "difference": 100 * row["relative_difference"],
        "low": None if low is None else 100 * low,
        "high": None if high is None else 100 * high,
        "verdict": row["verdict"],
        "text": verdict_text(row),
    }


def interval_text(row: dict) -> str:
    """Return an interval without signs, smaller end first."""
    low, high = sorted(abs(row[end]) for end in ("relative_lo", "relative_hi"))
    return f"{percent(low)} to {percent(high)}"


def signed_percent(share: float) -> str:
    """Return a share in percent with its sign."""
    return f"{MINUS if share < 0 else '+'}{percent(abs(share))}" if share else "0"


def verdict_text(row: dict) -> str:
    """Return the verdict with its numbers, if it has any."""
    if row["relative_difference"] is None:
        return "no kappa above 0"
    if row["verdict"] in SHORT_VERDICTS:
        return f"{percent(abs(row['relative_difference']))} {SHORT_VERDICTS[row['verdict']]} ({interval_text(row)})"
    if row["relative_lo"] is None:
        return f"{row['verdict']} ({signed_percent(row['relative_difference'])})"
    return f"{row['verdict']} ({span(signed_percent(row['relative_lo']), signed_percent(row['relative_hi']))})"


def title(source: Source, rows: list[dict], labels: dict[str, str]) -> str:
    """Return the title: the differences, and in how many trials the sender lost the CPU, which may be their cause.

    Only trials of the environments that differ and of the first environment count.
    """
    differing = [row["environment_b"] for row in rows if row["verdict"] in SHORT_VERDICTS]
    lost = lost_cpu_text(source, [rows[0]["environment_a"], *differing]) if differing else ""
    return differences(rows, labels) + (f" ({lost})" if lost else "")


def differences(rows: list[dict], labels: dict[str, str]) -> str:
    """Return the differences that are supported by the intervals."""
    first = labels[rows[0]["environment_a"]]
    decided = [row for row in rows if row["verdict"] in SHORT_VERDICTS]
    if not decided:
        other_environments = (
            listed([labels[row["environment_b"]] for row in rows])
            if len(rows) <= MAX_NAMED
            else "any other environment"
        )
        return f"No difference in mean kappa between {first} and {other_environments} is supported by the intervals"
    if len(rows) <= MAX_NAMED:
        parts = [
            f"{labels[row['environment_b']]} is {percent(abs(row['relative_difference']))} {row['verdict']} than "
            f"{first} ({interval_text(row)})"
            for row in decided
        ]
        return "; ".join(parts)
    numbers = Counter(row["verdict"] for row in rows)
    parts = [f"{numbers[verdict]} {SHORT_VERDICTS[verdict]}" for verdict in SHORT_VERDICTS if numbers[verdict]]
    other_environments = count(len(rows), "other environment")
    return f"Of {other_environments}: {listed(parts)} consistent than {first} ({difference_range(decided)})"


def difference_range(rows: list[dict]) -> str:
    """Return the range of relative differences: ``0.21 % to 18.0 % less``, or ``11.1 % less to 5.56 % more``."""
    verdicts = {SHORT_VERDICTS[row["verdict"]] for row in rows}
    if len(verdicts) == 1:
        sizes = [abs(row["relative_difference"]) for row in rows]
        return f"{span(percent(min(sizes)), percent(max(sizes)))} {verdicts.pop()}"
    ends = (end(row["relative_difference"] for row in rows) for end in (min, max))
    return span(*(f"{percent(abs(value))} {SHORT_VERDICTS[LESS if value < 0 else MORE]}" for value in ends))


def notes_of(source: Source, rows: list[dict], labels: dict[str, str]) -> tuple[str, ...]:
    """Return notes on the definition of the difference, and on what the intervals do not include."""
    first = labels[rows[0]["environment_a"]]
    notes = [
        f"Difference: of mean kappa, relative to that of {first}; lines: 95 % bootstrap intervals over runs",
        "intervals do not account for how kappa depends on the first trial, with which all runs are compared",
    ]
    if any(row["verdict"] == TOO_FEW for row in rows):
        notes.append(
            "too few runs: by chance alone, all kappas of one environment may be larger than those of the other"
        )
    if outliers := [labels[name] for name in labels if name in environments_with_outlier_baseline(source)]:
        notes.append(f"in {listed(outliers)} the first trial is an outlier, which lowers kappa of all runs")
    return ("; ".join(notes) + ".",)


def panels(kappas: list[dict], values: list[dict], texts: list[dict], names: list[str], first: str) -> alt.HConcatChart:
    """Return kappa of the runs at the left, and the differences with their numbers at the right."""
    caption_width = theme.text_width([text["text"] for text in texts]) + 8
    width = (theme.WIDTH - theme.text_width(names) - caption_width - PANEL_GAP - 45) // 2
    height = alt.Step(theme.row_height(len(names), low=14))
    y = alt.Y("label:N", sort=names, title=None, scale=alt.Scale(domain=names), axis=None)
    left = run_panel(kappas, names, width)
    right = difference_panel(values, texts, y, (width, caption_width), height, first)
    return alt.hconcat(left, right, spacing=PANEL_GAP)


def run_panel(kappas: list[dict], names: list[str], width: int) -> alt.LayerChart:
    """Return the panel with kappa of the runs and their mean, a row per environment."""
    y = alt.Y("label:N", sort=names, title=None, scale=alt.Scale(domain=names))
    run_chart = alt.Chart(Rows(values=kappas)).encode(
        y=y.axis(ticks=False, domain=False, grid=True, labelPadding=6),
        tooltip=[
            *(alt.Tooltip("label:N"), alt.Tooltip("run:N"), alt.Tooltip("kappa:Q", format=".6~r")),
            alt.Tooltip("sender:N"),
        ],
    )
    kinds = [kind for kind in SHAPES if any(run["sender"] == kind for run in kappas)]
    legend = alt.Legend(title="sender of either trial", orient="bottom", columns=2, offset=4)
    shape = alt.Shape(
        "sender:N",
        scale=alt.Scale(domain=kinds, range=[SHAPES[kind] for kind in kinds]),
        legend=legend if NO_CPU in kinds else None,
    )
    scale = alt.Scale(zero=False, nice=True)
    if len({run["kappa"] for run in kappas}) == 1:  # otherwise the axis would have a single tick
        scale = alt.Scale(domain=[0, 1])
    x = alt.X("kappa:Q", title="kappa", scale=scale, axis=alt.Axis(tickCount=4, grid=False))
    dots = run_chart.mark_point(size=22, strokeWidth=1.2, opacity=1, color=theme.SKY).encode(x=x, shape=shape)
    means = run_chart.mark_tick(thickness=2, color=theme.BLACK, height={"band": 0.7}).encode(
        x=alt.X("mean(kappa):Q"), tooltip=[alt.Tooltip("label:N"), alt.Tooltip("mean(kappa):Q", format=".6~r")]
    )
    heading = panel_title("runs and their mean (line)")
    height = alt.Step(theme.row_height(len(names), low=14))
    return (dots + means).properties(width=width, height=height, title=heading)


def difference_panel(values, texts, y, widths, height, first) -> alt.LayerChart:  # noqa: PLR0913, PLR0917
    """Return points with intervals, and a line at 0."""
    width, caption_width = widths
    ends = [end for value in values for end in (value["low"], value["high"], value["difference"], 0) if end is not None]
    margin = 0.04 * (max(ends) - min(ends)) or 1
    scale = alt.Scale(domain=[min(ends) - margin, max(ends) + margin], range=[0, width], nice=False)
    x = alt.X(
        "difference:Q", title="difference of mean kappa (%)", scale=scale, axis=alt.Axis(tickCount=5, domain=False)
    )
    color = alt.Color("verdict:N", scale=alt.Scale(domain=list(COLORS), range=list(COLORS.values())), legend=None)
    base = alt.Chart(Rows(values=values)).encode(
        y=y, color=color, tooltip=[*(alt.Tooltip("label:N"), alt.Tooltip("verdict:N"), alt.Tooltip("text:N"))]
    )
    points = base.mark_point(filled=True, size=36, opacity=1).encode(x=x)
    lines = base.transform_filter("datum.low !== null").mark_rule(strokeWidth=1.6)
    lines = lines.encode(x=alt.X("low:Q", scale=scale), x2="high:Q", color=alt.value(theme.BLACK))
    zero = alt.Chart(Rows(values=[{"difference": 0}])).mark_rule(color=theme.BLACK).encode(x=x)
    captions = alt.Chart(Rows(values=texts)).mark_text(align="left")
    captions = captions.encode(y=y, x=alt.value(width + 8), text="text:N")
    heading = panel_title(f"against {first}")
    return (zero + points + lines + captions).properties(width=width + caption_width, height=height, title=heading)


def panel_title(text: str) -> alt.TitleParams:
    """Return the heading of a panel."""
    return alt.TitleParams(text, fontSize=theme.TEXT, offset=4, frame="group", color=theme.INK)
