"""Figure kappa_matrix of the report, described by ABOUT."""

import altair as alt

from acapella.common.wording import count, listed, short_labels, shortened

from . import theme
from .comparison import (
    environments,
    environments_with_outlier_baseline,
    environments_without_other_pairs,
    marked,
    pairs,
    scope_of_pairs,
    trial_names,
    trials_without_cpu,
)
from .compose import Figure
from .kappa_components import format_kappa
from .rows import Rows
from .source import Source

SUBJECT = "Kappa between all trials"
ABOUT = "Kappa of every pair of trials that was compared, as a matrix for each environment."
TABLE = "consistency"
SCOPE = scope_of_pairs
COLUMNS = ("a", "b", "kappa")
MAX_LABEL = 26
MAX_TRIAL_LABEL = 14  # characters of a trial's name in row and column labels
MIN_TEXT_CELL = 30  # px: minimum size of a cell that contains kappa as text
MAX_TEXT_TRIALS = 10  # maximum number of trials for cells with text
PANELS_PER_ROW = 3  # maximum number of panels per row
MAX_LARGE_PANELS = 9  # if there are more panels, cells are small and without text
COLORS = tuple(reversed(theme.DECADES))  # lowest kappa to highest
CELL = (15, 40)  # px: minimum and maximum size


def draw(source: Source) -> Figure:
    """Draw a panel per environment and a cell per pair, on both sides of the diagonal because kappa is symmetric."""
    rows = pairs(source)
    kappas = [row["kappa"] for row in rows if row["kappa"] is not None]
    labels = short_labels(environments(source), MAX_LABEL)
    size = max(row["b"] for row in rows)
    names = trial_names(source)
    lost = trials_without_cpu(source)
    trials_of = {env: environment_trials(names, env, lost) for env in labels}
    label_width = theme.text_width([text for trials in trials_of.values() for text in trials.values()]) + 10
    panels_per_row = min(PANELS_PER_ROW, len(labels), max(1, (theme.WIDTH - 60) // (CELL[0] * size + label_width + 24)))
    numbers = size <= MAX_TEXT_TRIALS and len(labels) <= MAX_LARGE_PANELS
    while numbers and panels_per_row > 1 and cell_width(panels_per_row, label_width, size) < MIN_TEXT_CELL:
        panels_per_row -= 1  # cells must be large enough for kappa as text
    cell = cell_width(panels_per_row, label_width, size) if len(labels) <= MAX_LARGE_PANELS else CELL[0]
    lowest = min(kappas, default=1)
    outliers = environments_with_outlier_baseline(source)
    panels = [
        panel(
            [r for r in rows if r["environment"] == name],
            trials_of[name],
            panel_heading(label, first_trial(trials_of[name]), outlier=name in outliers),
            (cell, lowest, max(kappas, default=1)),
            numbers=numbers,
        )
        for name, label in labels.items()
    ]
    widths = [cell * len(trials_of[name]) + label_width + 24 for name in labels]
    lines = [alt.hconcat(*(panels[n] for n in line), spacing=24) for line in panel_lines(widths)]
    key = ["Trials in the order of the config; the diagonal is empty, because no trial is compared with itself"]
    if environments_without_other_pairs(source):
        key.append(
            "empty: not compared, so it is not known whether the first trial is an outlier (set "
            "consistency.all_pairs: true to compare all)"
        )
    if outliers:
        key.append("outlier: the other trials agree with each other but not with this one")
    chart = alt.vconcat(*lines, spacing=16).resolve_scale(color="shared")
    head = title(rows, names, [labels[name] for name in labels if name in outliers])
    width = max(sum(widths[n] + 6 for n in line) for line in panel_lines(widths))
    return Figure(head, pad_to_page(chart, width), ("; ".join(key) + ".",))


def panel_lines(widths: list[int]) -> list[list[int]]:
    """Return the indices of the panels of each line, with as many panels as fit on the page. ``widths``: in px."""
    lines, remaining = [], 0
    for index, width in enumerate(widths):
        if not lines or width > remaining:
            lines.append([])
            remaining = theme.WIDTH - 60
        lines[-1].append(index)
        remaining -= width
    return lines


def pad_to_page(chart: alt.VConcatChart, width: int) -> alt.TopLevelMixin:
    """Return the chart padded with empty space to the width of the page."""
    remaining = theme.WIDTH - 90 - width
    if remaining <= 0:
        return chart
    empty = alt.Chart(Rows(values=[{}])).mark_point(opacity=0).properties(width=remaining, height=1)
    return alt.hconcat(chart, empty, spacing=0)


def cell_width(panels: int, label_width: int, size: int) -> int:
    """Return the width of a cell in px. A row has ``panels`` panels, each with ``size`` cells and a label.

    ``label_width``: width of a label in px.
    """
    return max(CELL[0], min(CELL[1], (theme.WIDTH - 90 - (label_width + 24) * panels) // panels // size))


def environment_trials(names: dict[tuple[str, int], str], environment: str, lost: set) -> dict[int, str]:
    """Return a short name for each trial of an environment, by its number; trials in ``lost`` are marked."""
    trials = {number: name for (env, number), name in sorted(names.items()) if env == environment}
    short_names = short_labels(trials.values(), MAX_TRIAL_LABEL)
    return {number: marked(short_names[name], (environment, number) in lost) for number, name in trials.items()}


def first_trial(trials: dict[int, str]) -> str:
    """Return the name of the first trial."""
    return trials[min(trials)]


def panel_heading(label: str, first: str, *, outlier: bool) -> str:
    """Return the heading of a panel."""
    return f"{label}: {first} is an outlier" if outlier else label


def title(rows: list[dict], names: dict[tuple[str, int], str], outliers: list[str]) -> str:
    """Return the title: the range of kappa with its pairs, and the environments whose first trial is an outlier."""
    kappa_of_pairs = f"Kappa of {count(len(rows), 'pair')} of trials"
    defined = [row for row in rows if row["kappa"] is not None]
    if not defined:
        return f"{kappa_of_pairs}: undefined"
    ends = [end(row["kappa"] for row in defined) for end in (min, max)]
    low, high = map(format_kappa, ends)
    statement = f"{kappa_of_pairs}: {low}"
    if low != high:
        low, high = (f"{text} ({pairs_with(defined, end, names)})" for text, end in zip((low, high), ends, strict=True))
        statement = f"{kappa_of_pairs}: {low} to {high}"
    return f"{statement}; in {listed(outliers)} the first trial is an outlier" if outliers else statement


def pairs_with(rows: list[dict], kappa: float, names: dict[tuple[str, int], str]) -> str:
    """Return the first pair of trials with this kappa, and the number of others: ``a with b, and 2 other pairs``."""
    first, *others = [row for row in rows if row["kappa"] == kappa]
    trials = [shortened(names[first["environment"], first[end]], MAX_LABEL) for end in ("a", "b")]
    more = f", and {count(len(others), 'other pair')}" if others else ""
    return f"{' with '.join(trials)}{more}"


def panel(
    rows: list[dict], trials: dict[int, str], label: str, frame: tuple[int, float, float], *, numbers: bool
) -> alt.LayerChart:
    """Return the matrix of one environment. ``frame``: size of a cell in px, lowest and highest kappa of all."""
    cell, lowest, highest = frame
    low, high = (lowest, highest) if lowest < highest else (min(lowest, 0.99), 1)
    size = max(row["b"] for row in rows)
    order = list(trials.values())
    values = [
        {
            **{"row": trials[row[left]], "column": trials[row[top]], "kappa": row["kappa"], "text": cell_text(row)},
            **{"of": row[f"trial_{left}"], "with": row[f"trial_{top}"], "packets": row["packets_common"]},
            "ink": text_color(row["kappa"], low, high),
        }
        for row in rows
        for left, top in (("a", "b"), ("b", "a"))
    ]
    scale = alt.Scale(domain=[low, high], range=list(COLORS), interpolate="rgb", clamp=True)
    legend = alt.Legend(title="kappa", orient="right", gradientLength=90, tickCount=3, format=".4~f")
    x = alt.X(
        "column:N", sort=order, title=None, scale=alt.Scale(domain=order), axis=alt.Axis(labelAngle=-90, **PLAIN_AXIS)
    )
    y = alt.Y("row:N", sort=order, title=None, scale=alt.Scale(domain=order), axis=alt.Axis(**PLAIN_AXIS))
    base = alt.Chart(Rows(values=values)).encode(
        x=x,
        y=y,
        tooltip=[
            *(alt.Tooltip("of:N", title="trial"), alt.Tooltip("with:N"), alt.Tooltip("kappa:Q", format=".6~r")),
            alt.Tooltip("packets:Q", title="packets in common", format=","),
        ],
    )
    cells = base.mark_rect().encode(color=alt.Color("kappa:Q", scale=scale, legend=legend))
    layers = [cells]
    if numbers and cell >= MIN_TEXT_CELL:
        color = alt.condition(f"datum.ink == '{theme.BLACK}'", alt.value(theme.BLACK), alt.value(theme.WHITE))
        layers.append(base.mark_text(fontSize=theme.SMALL).encode(text="text:N", color=color))
    head = alt.TitleParams(label, fontSize=theme.TEXT, offset=4, frame="group", color=theme.INK)
    return alt.layer(*layers).properties(width=cell * size, height=max(18, cell * 3 // 4) * size, title=head)


PLAIN_AXIS = {"ticks": False, "domain": False, "grid": False}


def text_color(kappa: float | None, low: float, high: float) -> str:
    """Return the text color of a cell: black if kappa is undefined, because such cells are white."""
    return theme.BLACK if kappa is None else theme.ink_on(theme.color_at(COLORS, (kappa - low) / (high - low)))


def cell_text(row: dict) -> str:
    """Return kappa with three decimals, ``>.9995`` if it would be rounded to 1, or ``?`` if it is undefined."""
    if row["kappa"] is None:
        return "?"
    text = f"{row['kappa']:.3f}"
    return text if row["kappa"] in (0, 1) or text != "1.000" else ">.9995"
