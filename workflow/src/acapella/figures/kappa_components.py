"""Figure kappa_components of the report, described by ABOUT."""

from collections import Counter

import altair as alt

from acapella.common.wording import count, listed, percent, short_labels, span

from . import theme
from .comparison import environments, pairs, runs_against_first, scope, trial_labels
from .compose import Figure
from .rows import Rows
from .source import Source

SUBJECT = "Kappa and its components"
ABOUT = "Inconsistency of each run (1 - kappa) by component: uniqueness, order, latency, inter-arrival times."
TABLE = "consistency"
SCOPE = scope
COLUMNS = ("kappa", "U", "O", "L", "I", "contribution_U", "contribution_O", "contribution_L", "contribution_I")
COMPONENTS = {
    "U": ("U: loss and additions", theme.VERMILION),
    "O": ("O: order", theme.ORANGE),
    "L": ("L: latency", theme.SKY),
    "I": ("I: inter-arrival time", theme.BLUE),
}
MAX_LABEL = 28
COLUMN, BAR, SPACING = 74, 28, 8  # px: width of a component's column and of its longest bar; gap between columns
X_AXIS = alt.Axis(domain=False, tickCount=4, labelFlush=False)
MAX_NAMED = 4  # environments in the title; if there are more, only the smallest and the largest mean
MAX_LISTED = 6  # environments listed with omitted runs; if there are more, their number
MAX_RUNS = 40  # runs drawn; if there are more, those with the lowest kappa


def draw(source: Source) -> Figure:
    """Draw a bar per run, divided into the contributions to 1 - kappa; at the right, kappa and each component."""
    rows = runs_against_first(pairs(source))
    labels = short_labels(environments(source), MAX_LABEL)
    key = ["Each bar, 1 - kappa, is divided in proportion to U², O², L² and I²"]
    key.append("right: each component with a separate scale, so that small values are visible")
    drawn_rows = rows
    if len(rows) > MAX_RUNS:
        ranked = sorted(rows, key=lambda row: -1 if row["kappa"] is None else row["kappa"])
        drawn_rows = ranked[:MAX_RUNS]
        key.append(
            f"the {MAX_RUNS} runs with the lowest kappa of {count(len(rows), 'run')}, the lowest first; "
            f"{omitted_runs(ranked[MAX_RUNS:], labels)}"
        )
    trials = trial_labels(source, MAX_LABEL)
    names = [trials[row["environment"], row["b"]] for row in drawn_rows]
    values = [piece for name, row in zip(names, drawn_rows, strict=True) for piece in bar_pieces(name, row)]
    kappas = [{"label": name, "text": kappa_text(row)} for name, row in zip(names, drawn_rows, strict=True)]
    components = [{"label": name, **component_values(row)} for name, row in zip(names, drawn_rows, strict=True)]
    return Figure(title(rows, labels), chart(values, kappas, components, names), ("; ".join(key) + ".",))


def omitted_runs(rows: list[dict], labels: dict[str, str]) -> str:
    """Return a description of the omitted runs: their kappa, and their environments or the number of environments."""
    numbers = Counter(labels[row["environment"]] for row in rows)
    environments_ = count(len(numbers), "environment")
    if len(numbers) <= MAX_LISTED:
        environments_ = listed([f"{label} ({number})" for label, number in numbers.items()])
    ends = span(*("undefined" if row["kappa"] is None else format_kappa(row["kappa"]) for row in (rows[0], rows[-1])))
    return f"not shown: {count(len(rows), 'run')} of {environments_} with kappa {ends}"


def bar_pieces(name: str, row: dict) -> list[dict]:
    """Return the parts of one bar; [] if a component is undefined."""
    parts = [row[f"contribution_{component}"] for component in COMPONENTS]
    if None in parts:
        return []
    start, pieces = 0.0, []
    for (component, (text, _)), size in zip(COMPONENTS.items(), parts, strict=True):
        inconsistency = 1 - row["kappa"]
        pieces.append(
            {
                **{"label": name, "component": text, "from": start, "to": start + size, "value": row[component]},
                **{"environment": row["environment"], "run": row["trial_b"], "baseline": row["trial_a"]},
                "part": percent(size / inconsistency) if inconsistency else "none",
            }
        )
        start += size
    return pieces


def component_values(row: dict) -> dict:
    """Return each component as number and as text."""
    texts = {f"{name}_text": format_component(row[name]) for name in COMPONENTS}
    return {
        **{name: row[name] for name in COMPONENTS},
        **texts,
        "environment": row["environment"],
        "run": row["trial_b"],
    }


def format_component(value: float | None) -> str:
    """Return a component with three significant digits; only exact values are shown as 0 and 1."""
    if value is None:
        return "undefined"
    return f"{value:#.3g}" if value not in (0, 1) else f"{value:.0f}"


def kappa_text(row: dict) -> str:
    """Return kappa as text."""
    if row["kappa"] is None:
        return "undefined"
    if not row["packets_common"]:
        return "0: no packet in common"
    return format_kappa(row["kappa"])


def format_kappa(kappa: float) -> str:
    """Return kappa with four decimals, or as a difference from 1 if it would be rounded to 1.

    Only exact values are shown as 0 and 1.
    """
    text = f"{kappa:.4f}"
    if text == "1.0000" and kappa < 1:
        return f"1 - {1 - kappa:.1e}"
    return f"{kappa:.0f}" if kappa in (0, 1) else text


def title(rows: list[dict], labels: dict) -> str:
    """Return the title: the mean kappa of each environment; of many environments, the smallest and the largest."""
    means = {}
    for environment, label in labels.items():
        kappas = [row["kappa"] for row in rows if row["environment"] == environment and row["kappa"] is not None]
        means[label] = sum(kappas) / len(kappas) if kappas else None
    parts = [f"{'undefined' if mean is None else format_kappa(mean)} ({label})" for label, mean in means.items()]
    defined = {label: mean for label, mean in means.items() if mean is not None}
    if len(parts) > MAX_NAMED and defined:
        low, high = (limit(defined, key=defined.get) for limit in (min, max))
        parts = [f"{format_kappa(defined[label])} ({label})" for label in (low, high)]
        return f"Mean kappa of {len(means)} environments: {parts[0]} to {parts[1]}"
    return f"Mean kappa: {', '.join(parts)}"


def chart(values: list[dict], kappas: list[dict], components: list[dict], names: list[str]) -> alt.HConcatChart:
    """Return the bars with kappa at the right, and a column for each component."""
    caption_width = theme.text_width(kappa["text"] for kappa in kappas) + 10
    width = theme.WIDTH - theme.text_width(names) - 4 - caption_width - len(COMPONENTS) * (COLUMN + SPACING) - 20
    panels = [stacked_panel(values, kappas, names, width, caption_width)]
    panels += [component_panel(components, name, names) for name in COMPONENTS]
    return alt.hconcat(*panels, spacing=SPACING)


def row_axis(names: list[str], *, first: bool) -> alt.Y:
    """Return the axis of runs; only the first panel has labels."""
    axis = alt.Axis(ticks=False, domain=False, labelPadding=6) if first else None
    return alt.Y("label:N", sort=names, title=None, scale=alt.Scale(domain=names), axis=axis)


def row_heights(names: list[str]) -> alt.Step:
    """Return the row height of all panels."""
    return alt.Step(theme.row_height(len(names), low=14))


def stacked_panel(
    values: list[dict], kappas: list[dict], names: list[str], width: int, caption_width: int
) -> alt.LayerChart:
    """Return the bars of contributions, with kappa at the right."""
    maximum = max((value["to"] for value in values), default=0) or 0.01
    texts, colors = zip(*COMPONENTS.values(), strict=True)
    legend = alt.Legend(title=None, orient="bottom", symbolType="square", symbolStrokeWidth=0, offset=4, columns=4)
    y = row_axis(names, first=True)
    x = alt.X("from:Q", title="1 - kappa", scale=alt.Scale(domain=[0, maximum], range=[0, width]), axis=X_AXIS)
    color = alt.Color("component:N", sort=texts, scale=alt.Scale(domain=texts, range=colors), legend=legend)
    bars = (
        alt.Chart(Rows(values=values))
        .mark_bar(height={"band": 0.75})
        .encode(
            **{"x": x, "x2": "to:Q", "y": y, "color": color},
            tooltip=[
                *(alt.Tooltip("environment:N"), alt.Tooltip("run:N"), alt.Tooltip("baseline:N")),
                *(alt.Tooltip("component:N"), alt.Tooltip("value:Q", format=".4~g")),
                alt.Tooltip("part:N", title="of 1 - kappa"),
            ],
        )
    )
    text = alt.Chart(Rows(values=kappas)).mark_text(align="left").encode(y=y, x=alt.value(width + 6), text="text:N")
    head = panel_title("kappa", width + 6)
    return (bars + text).properties(width=width + caption_width, height=row_heights(names), title=head)


def component_panel(components: list[dict], name: str, names: list[str]) -> alt.LayerChart:
    """Return the column of one component: bars on a scale from 0 to its largest value, and the values as text."""
    maximum = max((row[name] or 0 for row in components), default=0) or 1
    base = alt.Chart(Rows(values=components)).encode(
        y=row_axis(names, first=False),
        tooltip=[*(alt.Tooltip("environment:N"), alt.Tooltip("run:N")), alt.Tooltip(f"{name}:Q", format=".4~g")],
    )
    scale = alt.Scale(domain=[0, maximum], range=[0, BAR], nice=False)
    bars = base.mark_bar(height={"band": 0.75}, color=COMPONENTS[name][1])
    bars = bars.encode(x=alt.X(f"{name}:Q", scale=scale, axis=None))
    text = base.mark_text(align="left", fontSize=theme.SMALL).encode(x=alt.value(BAR + 4), text=f"{name}_text:N")
    return (bars + text).properties(width=COLUMN, height=row_heights(names), title=panel_title(name, 0))


def panel_title(text: str, dx: int) -> alt.TitleParams:
    """Return a heading, ``dx`` px from the left edge of its panel."""
    return alt.TitleParams(text, fontSize=theme.TEXT, offset=4, frame="group", color=theme.INK, dx=dx)
