"""Figure flowreport_memory of the report, described by ABOUT."""

import math

import altair as alt

from acapella.common.wording import count, percent, scaled

from . import theme
from .compose import Figure
from .flowreport_scope import scope
from .rows import Rows
from .source import NoData, Source

SUBJECT = "Error against sketch memory"
ABOUT = "Errors of flow sizes by memory of the sketch."
TABLE = "flowreport_memory"
COLUMNS = ("rows", "cells", "memory_bytes", "missing", "equal", "error_p99", "error_largest")
SCOPE = scope
PANEL, HEIGHT = 222, 170
MEASURES = {"bytes": "Flow size", "packets": "Packets"}
UNEQUAL_TITLE = "flows missing or not exact (%)"
COLORS = (theme.VERMILION, theme.ORANGE, theme.SKY, theme.BLUE)  # for sketches with 1 to 4 rows
MIN_ERROR = 1e-4  # %: lower end of the axis of errors; smaller errors are drawn there
MIN_ERROR_TOP = 0.01  # %: smallest upper end of that axis, so that ticks are apart if all errors are 0
MIN_ERROR_LABEL = f"datum.value < {1.001 * MIN_ERROR:g} ? '\u2264{MIN_ERROR:.4f}' : ({theme.SHORT_NUMBERS})"


def draw(source: Source) -> Figure:
    """Draw the share of flows with any error and the 99th percentile of errors, one line per number of sketch rows."""
    rows = source.rows(TABLE)
    if not rows:
        raise NoData("no other sketch sizes were measured (config flowreports.sketches)")
    values = [point(row) for row in combine_samples(rows)]
    row_counts = sorted({row["rows"] for row in rows})
    panels = [
        alt.hconcat(
            *(
                panel([v for v in values if v["measure"] == measure], field, heading, row_counts)
                for measure in MEASURES
            ),
            spacing=30,
        )
        for field, heading in (("unequal", UNEQUAL_TITLE), ("error", "99th percentile of errors (%)"))
    ]
    chart = alt.vconcat(*panels, spacing=10).resolve_scale(color="shared", shape="shared")
    key = (
        "Memory: both banks of both sums, in cells of 64 bits. A run is one sample with one sketch size; a point is "
        "one sketch size. Upper panels: flows of all samples that are in no report or whose value is not exact. Lower "
        "panels: relative errors of the flows that digest and reports contain, in the sample with the largest "
        f"percentile; values below {MIN_ERROR:.4f} %, and 0, are at the lower end.",
    )
    return Figure(title(values), alt.hconcat(chart), key)


def combine_samples(rows: list[dict]) -> list[dict]:
    """Return a row for each sketch and measure: total flows and samples, and the largest errors."""
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        groups.setdefault((row["rows"], row["cells"], row["measure"]), []).append(row)
    combined = []
    for _, group in sorted(groups.items()):
        sums = {name: sum(row[name] for row in group) for name in ("n", "missing", "equal")}
        if sums["n"] + sums["missing"]:
            worst = {name: max(row[name] or 0.0 for row in group) for name in ("error_p99", "error_largest")}
            combined.append({**group[0], **sums, **worst, "runs": len(group)})
    return combined


def point(row: dict) -> dict:
    """Return the values of a sketch for the chart. If any error is above 0, at least one flow counts as inexact."""
    inexact = max(row["n"] + row["missing"] - row["equal"], int(row["error_largest"] > 0))
    return {
        "measure": row["measure"],
        "rows": f"{row['rows']}",
        "cells": row["cells"],
        "memory": row["memory_bytes"],
        "unequal": 100 * inexact / (row["n"] + row["missing"]),
        "error": max(MIN_ERROR, 100 * row["error_p99"]),
        "p99": 100 * row["error_p99"],
        "largest": 100 * row["error_largest"],
        "flows": row["n"] + row["missing"],
        "missing": row["missing"],
        "inexact": inexact,
        "runs": row["runs"],
    }


def title(values: list[dict]) -> str:
    """Return the title: the memory at and above which all runs were exact, and the largest memory of an inexact run.

    Sizes between the two were not measured.
    """
    sizes = [v for v in values if v["measure"] == "bytes"]
    unequal = max((v for v in sizes if v["inexact"]), key=lambda v: (v["memory"], v["inexact"]), default=None)
    exact = [v for v in sizes if unequal is None or v["memory"] > unequal["memory"]]
    if not exact:
        fault = "missing or not exact" if unequal["missing"] else "not exact"
        return (
            f"With {memory_text(unequal)}, the largest sketch tried, the sizes of {inexact_share(unequal)} are {fault}"
        )
    smallest = min(exact, key=lambda v: v["memory"])
    number = sum(v["runs"] for v in exact)
    runs = "the one run" if number == 1 else f"all {count(number, 'run')}"
    or_more = " or more" if any(v["memory"] > smallest["memory"] for v in exact) else ""
    statement = f"Every flow size is exact in {runs} with {memory_text(smallest)}{or_more}"
    if unequal is None:
        return f"{statement}; smaller sketches were not tried"
    return (
        f"{statement}; with {memory_text(unequal)} {inexact_share(unequal)} are not exact; no size in between was tried"
    )


def memory_text(sketch: dict) -> str:
    """Return the size of a sketch: ``262 kB of sketch (2 x 4,096 cells)``."""
    return f"{scaled(sketch['memory'], 'B')} of sketch ({sketch['rows']} x {sketch['cells']:,} cells)"


def inexact_share(sketch: dict) -> str:
    """Return the share of inexact flows: ``12.0 % of 300 flows``."""
    return f"{percent(sketch['inexact'] / sketch['flows'])} of {count(sketch['flows'], 'flow')}"


def error_ticks(largest: float) -> list[float]:
    """Return the ticks of the axis of errors: powers of ten from MIN_ERROR to one at or above the largest error."""
    top = math.ceil(math.log10(max(largest, MIN_ERROR_TOP)))
    return [10.0**power for power in range(round(math.log10(MIN_ERROR)), top + 1)]


def panel(values: list[dict], field: str, heading: str, row_counts: list[int]) -> alt.Chart:
    """Return the panel of one measure and one kind of error."""
    legend = alt.Legend(title="rows", orient="right", symbolType="circle", symbolOpacity=1)
    color = alt.Color(
        "rows:N",
        scale=alt.Scale(domain=[f"{n}" for n in row_counts], range=[COLORS[n - 1] for n in row_counts]),
        legend=legend,
    )
    linear = field == "unequal"
    powers = error_ticks(max(value["error"] for value in values))
    scale = alt.Scale(domain=[0, 100]) if linear else alt.Scale(type="log", nice=False, domain=[powers[0], powers[-1]])
    ticks = {"tickCount": 5} if linear else {"values": powers, "labelExpr": MIN_ERROR_LABEL}
    base = alt.Chart(Rows(values=values)).encode(
        x=alt.X(
            "memory:Q",
            title="memory of the sketch (B)",
            scale=alt.Scale(type="log", nice=False, padding=8),
            axis=alt.Axis(format=".3~s", tickCount=5, labelOverlap=True, grid=False),
        ),
        y=alt.Y(f"{field}:Q", title=heading, scale=scale, axis=alt.Axis(domain=False, minExtent=34, **ticks)),
        color=color,
        tooltip=[
            alt.Tooltip("rows:N"),
            alt.Tooltip("cells:Q", format=","),
            alt.Tooltip("runs:Q", format=","),
            alt.Tooltip("unequal:Q", title=UNEQUAL_TITLE, format=".3~g"),
            alt.Tooltip("p99:Q", title="99th percentile of errors (%)", format=".3~g"),
            alt.Tooltip("largest:Q", title="largest error (%)", format=".3~g"),
            alt.Tooltip("flows:Q", format=","),
        ],
    )
    head = alt.TitleParams(
        MEASURES[values[0]["measure"]], fontSize=theme.TEXT, offset=4, frame="group", color=theme.INK
    )
    marks = base.mark_line(strokeWidth=1.6) + base.mark_circle(size=36, opacity=1)
    return marks.properties(width=PANEL, height=HEIGHT, title=head)
