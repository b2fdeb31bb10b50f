"""Kappa of every pair of trials that was compared, as a matrix for each environment."""

import altair as alt

from . import theme
from .comparison import against_one, environments, letter, odd_baselines, pairs, scope_of_pairs
from .compose import Figure
from .kappa_components import number
from .source import Source
from .wording import count, listed, short_labels

SUBJECT = "Kappa between all trials"
TABLE = "consistency"
SCOPE = scope_of_pairs
COLUMNS = ("a", "b", "kappa")
LABEL = 26
TEXT_MOST = 10  # trials of which the cells hold kappa in figures
ACROSS = 3  # panels in a row
CELL = (15, 40)  # px, least and most


def draw(source: Source) -> Figure:
    """A panel an environment; a cell a pair, on both sides of the diagonal: kappa is symmetric."""
    rows = pairs(source)
    known = [row["kappa"] for row in rows if row["kappa"] is not None]
    labels = short_labels(environments(source), LABEL)
    size = max(row["b"] for row in rows)
    across = min(ACROSS if size <= 24 else 1, len(labels))
    cell = max(CELL[0], min(CELL[1], (theme.WIDTH - 90 - 40 * across) // across // size))
    least = min(known, default=1)
    odd = odd_baselines(source)
    panels = [
        panel([r for r in rows if r["environment"] == name], headed(label, odd=name in odd), cell, least)
        for name, label in labels.items()
    ]
    lines = [alt.hconcat(*panels[n : n + across], spacing=24) for n in range(0, len(panels), across)]
    key = ["A is the first trial of its environment, B the second"]
    if against_one(source):
        key.append(
            "empty: not compared, so whether A is the odd one does not show (consistency.all_pairs: true shows it)"
        )
    if odd:
        key.append("odd: the others agree among themselves, and not with A")
    chart = alt.vconcat(*lines, spacing=16).resolve_scale(color="shared")
    head = title(rows, known, [labels[name] for name in labels if name in odd])
    return Figure(head, pad(chart, across * (cell * size + 50)), ("; ".join(key) + ".",))


def pad(chart: alt.VConcatChart, width: int) -> alt.TopLevelMixin:
    """The chart, and beside it as much nothing as keeps a narrow figure a page wide."""
    rest = theme.WIDTH - 90 - width
    if rest <= 0:
        return chart
    empty = alt.Chart(alt.Data(values=[{}])).mark_point(opacity=0).properties(width=rest, height=1)
    return alt.hconcat(chart, empty, spacing=0)


def headed(label: str, *, odd: bool) -> str:
    """What stands over a panel."""
    return f"{label}: A is odd" if odd else label


def title(rows: list[dict], known: list[float], odd: list[str]) -> str:
    """The range of kappa, and the environments whose first trial is the odd one."""
    what = f"Kappa of {count(len(rows), 'pair')} of trials"
    if not known:
        return f"{what}: undefined"
    low, high = number(min(known)), number(max(known))
    found = f"{what}: {low}" if low == high else f"{what}: {low} to {high}"
    return f"{found}; in {listed(odd)} the first trial is the odd one" if odd else found


def panel(rows: list[dict], label: str, cell: int, least: float) -> alt.LayerChart:
    """The matrix of one environment."""
    size = max(row["b"] for row in rows)
    order = [letter(place) for place in range(1, size + 1)]
    values = [
        {
            **{"row": letter(row[one]), "column": letter(row[other]), "kappa": row["kappa"], "text": cell_text(row)},
            **{"of": row[f"trial_{one}"], "with": row[f"trial_{other}"], "packets": row["packets_common"]},
            "dark": row["kappa"] is not None and least < 1 and (row["kappa"] - least) / (1 - least) < 0.5,
        }
        for row in rows
        for one, other in (("a", "b"), ("b", "a"))
    ]
    low = least if least < 1 else 0.99
    scale = alt.Scale(domain=[low, 1], range=list(reversed(theme.LEVELS)), interpolate="rgb", clamp=True)
    legend = alt.Legend(title="kappa", orient="right", gradientLength=90, tickCount=3, format=".4~f")
    x = alt.X("column:N", sort=order, title=None, scale=alt.Scale(domain=order), axis=alt.Axis(labelAngle=0, **QUIET))
    y = alt.Y("row:N", sort=order, title=None, scale=alt.Scale(domain=order), axis=alt.Axis(**QUIET))
    base = alt.Chart(alt.Data(values=values)).encode(
        x=x,
        y=y,
        tooltip=[
            *(alt.Tooltip("of:N", title="trial"), alt.Tooltip("with:N"), alt.Tooltip("kappa:Q", format=".6~r")),
            alt.Tooltip("packets:Q", title="packets in common", format=","),
        ],
    )
    cells = base.mark_rect().encode(color=alt.Color("kappa:Q", scale=scale, legend=legend))
    layers = [cells]
    if size <= TEXT_MOST and cell >= 30:
        ink = alt.condition("datum.dark", alt.value("#FFFFFF"), alt.value(theme.INK))
        layers.append(base.mark_text(fontSize=theme.SMALL).encode(text="text:N", color=ink))
    head = alt.TitleParams(label, fontSize=theme.TEXT, offset=4, frame="group", color=theme.INK)
    return alt.layer(*layers).properties(width=cell * size, height=max(18, cell * 3 // 4) * size, title=head)


QUIET = {"ticks": False, "domain": False, "grid": False}


def cell_text(row: dict) -> str:
    """Kappa with four digits at most."""
    if row["kappa"] is None:
        return "?"
    text = f"{row['kappa']:.3f}"
    return text if row["kappa"] in (0, 1) or text != "1.000" else ">.9995"
