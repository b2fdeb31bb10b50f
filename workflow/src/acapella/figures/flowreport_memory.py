"""How the error of flow sizes falls with the memory of the sketch."""

import altair as alt

from . import theme
from .compose import Figure
from .flowreport_scope import scope
from .source import NoData, Source
from .wording import count, percent, scaled

SUBJECT = "Error against sketch memory"
TABLE = "flowreport_memory"
COLUMNS = ("rows", "cells", "memory_bytes", "load", "missing", "equal", "error_p99")
SCOPE = scope
PANEL, HEIGHT = 222, 170
MEASURES = {"bytes": "Flow size", "packets": "Packets"}
COLOURS = (theme.VERMILION, theme.ORANGE, theme.SKY, theme.BLUE)  # of 1 to 4 rows
LEAST = 1e-4  # %, where the axis of errors begins: a smaller one is drawn there


def draw(source: Source) -> Figure:
    """Flows with any error, and the 99th percentile of errors, a line a number of rows."""
    rows = source.rows(TABLE)
    if not rows:
        raise NoData("no other sketch was tried (config flowreports.sketches)")
    values = [point(row) for row in over_samples(rows)]
    sizes = sorted({row["rows"] for row in rows})
    panels = [
        alt.hconcat(
            *(panel([v for v in values if v["measure"] == measure], field, heading, sizes) for measure in MEASURES),
            spacing=30,
        )
        for field, heading in (("unequal", "flows that differ (%)"), ("error", "99th percentile of errors (%)"))
    ]
    chart = alt.vconcat(*panels, spacing=10).resolve_scale(color="shared", shape="shared")
    key = (
        "Both banks of both sums, cells of 64 bits; load: most flows between two resets for each cell of a row. "
        f"Errors below {LEAST:g} %, also 0, are drawn at the lower end. Flows of all samples; the percentile of the "
        "worst sample.",
    )
    return Figure(title(values), alt.hconcat(chart), key)


def over_samples(rows: list[dict]) -> list[dict]:
    """One row a sketch and measure: shares weighted by flows, the worst 99th percentile."""
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        groups.setdefault((row["rows"], row["cells"], row["measure"]), []).append(row)
    found = []
    for _, own in sorted(groups.items()):
        known = [row["error_p99"] for row in own if row["error_p99"] is not None]
        flows = sum(row["n"] for row in own)
        if flows:
            sums = {name: sum(row[name] for row in own) for name in ("missing", "equal")}
            sums |= {"n": flows, "error_p99": max(known, default=0.0)}
            found.append({**own[0], **sums, "load": max(row["load"] or 0 for row in own)})
    return found


def point(row: dict) -> dict:
    """A sketch in the drawing."""
    return {
        "measure": row["measure"],
        "rows": f"{row['rows']}",
        "cells": row["cells"],
        "memory": row["memory_bytes"],
        "load": row["load"],
        "unequal": 100 * (1 - row["equal"] / row["n"]),
        "error": max(LEAST, 100 * row["error_p99"]),
        "p99": row["error_p99"],
        "flows": row["n"],
        "missing": row["missing"],
        "inexact": row["n"] + row["missing"] - row["equal"],
    }


def title(values: list[dict]) -> str:
    """The least memory from which on every size is exact and none is missing, or the most that was tried."""
    sizes = [v for v in values if v["measure"] == "bytes"]
    unequal = max((v["memory"] for v in sizes if v["inexact"]), default=0)
    exact = [v for v in sizes if v["memory"] > unequal]
    if exact:
        least = min(exact, key=lambda v: v["memory"])
        size = scaled(least["memory"], "B")
        smaller = f"; the next smaller sketch ({scaled(unequal, 'B')}) is not exact" if unequal else ""
        return f"Every flow size is exact from {size} on ({least['rows']} x {least['cells']:,} cells){smaller}"
    most = max(sizes, key=lambda v: v["memory"])
    total = most["flows"] + most["missing"]
    flows = f"{percent(most['inexact'] / total)} of {count(total, 'flow')}"
    fault = "missing or not exact" if most["missing"] else "not exact"
    return f"With {scaled(most['memory'], 'B')} of sketch the sizes of {flows} are {fault}"


def panel(values: list[dict], field: str, heading: str, sizes: list[int]) -> alt.Chart:
    """One measure and one kind of error."""
    legend = alt.Legend(title="rows", orient="right", symbolType="circle", symbolOpacity=1)
    colour = alt.Color(
        "rows:N", scale=alt.Scale(domain=[f"{n}" for n in sizes], range=[COLOURS[n - 1] for n in sizes]), legend=legend
    )
    linear = field == "unequal"
    scale = alt.Scale(domain=[0, 100]) if linear else alt.Scale(type="log", nice=False, domainMin=LEAST)
    powers = {"values": [10.0**power for power in range(-4, 7)], "labelExpr": theme.SHORT_NUMBERS}
    ticks = {"tickCount": 5} if linear else powers
    base = alt.Chart(alt.Data(values=values)).encode(
        x=alt.X(
            "memory:Q",
            title="memory of the sketch (B)",
            scale=alt.Scale(type="log", nice=False, padding=8),
            axis=alt.Axis(format="~s", tickCount=5, labelOverlap=True, grid=False),
        ),
        y=alt.Y(f"{field}:Q", title=heading, scale=scale, axis=alt.Axis(domain=False, minExtent=34, **ticks)),
        color=colour,
        tooltip=[
            alt.Tooltip("rows:N"),
            alt.Tooltip("cells:Q", format=","),
            alt.Tooltip("load:Q", title="load (flows a cell)", format=".3~g"),
            alt.Tooltip("unequal:Q", title="flows that differ (%)", format=".3~g"),
            alt.Tooltip("p99:Q", title="99th percentile of errors", format=".3~g"),
            alt.Tooltip("flows:Q", format=","),
        ],
    )
    head = alt.TitleParams(
        MEASURES[values[0]["measure"]], fontSize=theme.TEXT, offset=4, frame="group", color=theme.INK
    )
    marks = base.mark_line(strokeWidth=1.6) + base.mark_circle(size=36, opacity=1)
    return marks.properties(width=PANEL, height=HEIGHT, title=head)
