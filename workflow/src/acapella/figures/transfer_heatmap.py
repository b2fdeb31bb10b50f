"""Heatmaps of a value against buffer and delay, with a panel per algorithm (sliced-WAN paper, figures 4 and 5)."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import altair as alt

from acapella.common.wording import count

from . import theme, transfer_scope
from .source import NoData

MAX_GROUPS = 4  # rows of panels
MIN_TEXT_CELL = 24  # px: smallest cell that contains text
MIN_SPREAD_CELL = 27  # px: smallest cell that also contains a spread
MISSING = "\N{EN DASH}"
NO_VALUE_COLOR = "#F2F2F2"
FLAG_COLOR = theme.BLACK
PANEL_GAP = 14
PANELS_PER_ROW = 2
KEY = (
    "\N{PLUS-MINUS SIGN}: standard deviation of repeated settings; black frame: a run of the cell has a flag "
    "(transfer_cells.csv, column flags)",
)


@dataclass(frozen=True)
class Measure:
    """The measure of a heatmap: a row's value, its text and spread, the title of its scale, and colors from low to
    high."""

    value: Callable[[dict], float | None]
    text: Callable[[dict], str]
    title: str
    colors: tuple[str, ...] = theme.LEVELS
    spread: Callable[[dict], str] = lambda row: ""
    scale: str = "linear"
    symmetric: bool = False  # whether the scale is symmetric around 0
    least: float = 0.0  # minimum end of a symmetric color scale
    neutral: float = 0.0  # values up to this, regardless of their sign, have the color of 0
    spread_title: str = "standard deviation"


def heat_groups(rows: list[dict]) -> list[list[dict]]:
    """Return the rows of each group of panels: groups with several delays or buffers, or all if there are none.

    Raises NoData without rows.
    """
    if not rows:
        raise NoData("no transfer has run (acapella transfer, or transfer.data in the config)")
    all_groups = list(transfer_scope.group_rows(rows, transfer_scope.FIXED).values())
    grids = [group for group in all_groups if len({(row["delay_ns"], row["buffer_bytes"]) for row in group}) > 1]
    return grids or all_groups


def heat_rows(rows: list[dict]) -> list[dict]:
    """Return the rows of the groups that are drawn."""
    return [row for group in heat_groups(rows)[:MAX_GROUPS] for row in group]


def compared_rows(rows: list[dict]) -> list[dict]:
    """Return the drawn rows of the two algorithms whose gain is shown."""
    return heat_rows([row for row in rows if row["algorithm"] in transfer_scope.FIRST])


def heatmap(rows: list[dict], measure: Measure, panels: Callable[[dict], str]) -> tuple[alt.VConcatChart, list[str]]:
    """Return the chart, and notes on omitted settings. ``panels``: heading of the panel that contains a row."""
    all_groups = heat_groups(rows)
    drawn_groups = all_groups[:MAX_GROUPS]
    drawn_rows = [row for group in drawn_groups for row in group]
    values = [value for row in drawn_rows if (value := measure.value(row)) is not None]
    domain = value_domain(values, measure)
    names = list(dict.fromkeys(map(panels, drawn_rows)))
    heading = transfer_scope.varying(drawn_rows, transfer_scope.FIXED)
    lines = []
    for group in drawn_groups:
        text = transfer_scope.setting_text(group[0], heading)
        present = [name for name in names if any(panels(row) == name for row in group)]
        charts = [
            panel(
                [row for row in group if panels(row) == name],
                group,
                measure,
                domain,
                (name, min(len(names), PANELS_PER_ROW)),
            )
            for name in present
        ]
        parts = [
            alt.hconcat(*charts[n : n + PANELS_PER_ROW], spacing=PANEL_GAP)
            for n in range(0, len(charts), PANELS_PER_ROW)
        ]
        line = alt.vconcat(*parts, spacing=10) if len(parts) > 1 else parts[0]
        head = alt.TitleParams(text, fontSize=theme.TEXT, color=theme.INK)
        lines.append(line.properties(title=head) if text else line)
    notes = (
        [f"{count(len(all_groups) - len(drawn_groups), 'other group')} of settings in the table"]
        if len(all_groups) > len(drawn_groups)
        else []
    )
    return alt.vconcat(*lines, spacing=18).resolve_scale(color="shared"), notes


def value_domain(values: list[float], measure: Measure) -> list[float]:
    """Return the ends of the color scale."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if measure.symmetric:
        bound = max(abs(low), abs(high), measure.least) or 1.0
        return [-bound, bound]
    return [0.0 if measure.scale == "symlog" else low, high if high > low else low + 1]


def panel(
    rows: list[dict], group: list[dict], measure: Measure, domain: list[float], layout: tuple[str, int]
) -> alt.LayerChart:
    """Return the panel of an algorithm. ``layout``: its heading, and the number of panels in a line."""
    heading, across = layout
    delays, buffers = axis_values(group, "delay_ns"), axis_values(group, "buffer_bytes")
    y_labels = {value: transfer_scope.milliseconds(value) for value in delays}
    x_labels = {value: transfer_scope.byte_text(value) for value in buffers}
    available_width = (theme.WIDTH - 100 - (across - 1) * PANEL_GAP) / across - theme.text_width(y_labels.values()) - 20
    cell = max(14, min(96 if across > 1 else 200, int(available_width / len(buffers))))
    height = max(26, min(36, 300 // max(len(delays), 1)))
    values = [
        cell_values(row, measure, domain) | {"x": x_labels[row["buffer_bytes"]], "y": y_labels[row["delay_ns"]]}
        for row in rows
    ]
    angle = 0 if cell >= theme.text_width(x_labels.values()) + 2 else -90
    x = alt.X(
        "x:N",
        sort=list(x_labels.values()),
        title="buffer",
        scale=alt.Scale(domain=list(x_labels.values())),
        axis=alt.Axis(labelAngle=angle, ticks=False, domain=False, grid=False),
    )
    y = alt.Y(
        "y:N",
        sort=list(y_labels.values()),
        title="added round-trip delay (ms)",
        scale=alt.Scale(domain=list(y_labels.values())),
        axis=alt.Axis(ticks=False, domain=False, grid=False),
    )
    base = alt.Chart(alt.Data(values=values)).encode(x=x, y=y, tooltip=tooltips(measure))
    scale = alt.Scale(type=measure.scale, domain=domain, range=list(measure.colors), interpolate="rgb", clamp=True)
    powers = {"values": [10**n for n in range(19) if 10**n <= domain[1]], "format": ",d"}
    ticks = powers if measure.scale == "symlog" else {"tickCount": 5}
    legend = alt.Legend(title=measure.title, orient="right", gradientLength=120, **ticks)
    known, unknown = "isValid(datum.value)", "!isValid(datum.value)"
    layers = [
        base.transform_filter(unknown).mark_rect(color=NO_VALUE_COLOR, stroke=theme.WHITE),
        base.transform_filter(known)
        .mark_rect(stroke=theme.WHITE, strokeWidth=1)
        .encode(color=alt.Color("shade:Q", scale=scale, legend=legend)),
        base.transform_filter("datum.flagged").mark_rect(fillOpacity=0, stroke=FLAG_COLOR, strokeWidth=1.6),
    ]
    if cell >= MIN_TEXT_CELL:
        widest = theme.text_width((value["spread"] for value in values), theme.SMALL)
        layers += texts(base, two_lines=cell >= max(MIN_SPREAD_CELL, widest))
    head = alt.TitleParams(heading, fontSize=theme.TEXT, offset=4, frame="group", color=theme.INK)
    return alt.layer(*layers).properties(width=cell * len(buffers), height=height * len(delays), title=head)


def texts(base: alt.Chart, *, two_lines: bool) -> list[alt.Chart]:
    """Return the layers of text: the value, and below it the spread of repeated cells."""
    color = alt.condition(f"datum.ink == '{theme.BLACK}'", alt.value(theme.BLACK), alt.value(theme.WHITE))
    single = base.transform_filter("datum.spread == ''" if two_lines else "true")
    layers = [single.mark_text(fontSize=theme.SMALL).encode(text="text:N", color=color)]
    if two_lines:
        repeated = base.transform_filter("datum.spread != ''")
        layers.append(repeated.mark_text(fontSize=theme.SMALL, dy=-5).encode(text="text:N", color=color))
        layers.append(repeated.mark_text(fontSize=theme.SMALL, dy=6).encode(text="spread:N", color=color))
    return layers


def tooltips(measure: Measure) -> list[alt.Tooltip]:
    """Return the tooltip of a cell."""
    return [
        alt.Tooltip("y:N", title="delay (ms)"),
        alt.Tooltip("x:N", title="buffer"),
        alt.Tooltip("value:Q", title=measure.title, format=".4~g"),
        alt.Tooltip("spread:N", title=measure.spread_title),
        alt.Tooltip("runs:N", title="runs"),
        alt.Tooltip("flags:N", title="flags"),
    ]


def axis_values(rows: list[dict], name: str) -> list:
    """Return the values of a setting in ascending order, unknown first."""
    return sorted({row[name] for row in rows}, key=lambda value: (value is not None, value or 0))


def cell_values(row: dict, measure: Measure, domain: list[float]) -> dict:
    """Return the values of a cell for the chart."""
    value = measure.value(row)
    shade = 0.0 if value is not None and abs(value) <= measure.neutral else value
    background = NO_VALUE_COLOR if shade is None else theme.color_at(measure.colors, place(shade, domain, measure))
    return {
        "value": value,
        "shade": shade,
        "text": measure.text(row),
        "spread": measure.spread(row),
        "ink": theme.ink_on(background),
        "runs": runs_text(row),
        "flags": row.get("flags") or ("flagged" if row.get("flagged") else "none"),
        "flagged": transfer_scope.is_flagged(row),
    }


def deviation(value: float | None) -> str:
    """Return a standard deviation as text, such as ``±0.52``; empty for a single run."""
    if value is None:
        return ""
    text = f"{value:.2g}" if 0.001 <= value < 99.5 else f"{value:.0f}"
    return f"\N{PLUS-MINUS SIGN}{text}"


def runs_text(row: dict) -> str:
    """Return the number of complete runs of a row of transfer_settings or transfer_gain."""
    if "runs" in row:
        return f"{row['runs']}"
    return f"{row['bbr_runs']} BBR, {row['cubic_runs']} CUBIC"


def place(value: float, domain: list[float], measure: Measure) -> float:
    """Return the place of a value on the color scale, 0 to 1."""
    scaled = (lambda number: math.log1p(max(number, 0))) if measure.scale == "symlog" else float
    low, high = (scaled(end) for end in domain)
    return (scaled(value) - low) / (high - low) if high > low else 0.0
