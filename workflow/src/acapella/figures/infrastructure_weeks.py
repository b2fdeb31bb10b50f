"""Figure infrastructure_weeks of the report, described by ABOUT."""

from datetime import date, timedelta

import altair as alt

from acapella.common.wording import count, percent, scaled

from . import infrastructure_scope, theme
from .compose import Figure
from .rows import Rows
from .source import NoData, Source

SUBJECT = "Activity of each week"
ABOUT = "Activity of all switch ports in each week (Patchwork, figure 6)."
TABLE = "infrastructure_weeks"
COLUMNS = ("week", "rate_sum_bytes_per_s", "mean_bps", "covered_share")
SCOPE = infrastructure_scope.no_scope
HEIGHT = 220
GAP_COLOR = "#DDDDDD"
MONTH_COLORS = (theme.INK, "#9A9A9A")  # alternate, as in the paper


def draw(source: Source) -> Figure:
    """Draw a bar per week, and gray bands over weeks without samples."""
    rows = source.rows(TABLE)
    if not rows:
        raise NoData("no port has two readings in successive bins (infrastructure.telemetry, infrastructure.bin_s)")
    with_samples = [row for row in rows if row["mean_bps"] is not None]
    peak = max(with_samples, key=lambda row: row["mean_bps"])
    weeks = count(len(with_samples), "week")
    parts = [f"{weeks}, at most {count(max(row['ports'] for row in rows), 'port')}"]
    parts.append(infrastructure_scope.comparison_note("peak_week", scaled(peak["mean_bps"], "bit/s")))
    partial_weeks = sum(row["covered_share"] < 1 for row in with_samples)
    if partial_weeks:
        min_coverage = percent(min(row["covered_share"] for row in with_samples))
        parts.append(f"{count(partial_weeks, 'week')} only partly covered, the least {min_coverage}")
    if gaps := len(rows) - len(with_samples):
        parts.append(f"gray: {count(gaps, 'week')} without samples")
    key = (
        infrastructure_scope.note(*parts),
        "As in the paper: sums of all samples of a week, each the mean rate of a port over infrastructure.bin_s, "
        "received and sent; months alternate between black and gray. A frame that crosses a link counts at both ends.",
    )
    title = f"Most active week ({peak['week']}): {scaled(peak['mean_bps'], 'bit/s')} on average over all ports"
    return Figure(title, chart(rows), key)


def bar(row: dict, parity: dict[str, int]) -> dict:
    """Return the values of a week for the chart."""
    first = date.fromisoformat(row["week"])
    return {
        **{"week": row["week"], "next": (first + timedelta(days=7)).isoformat()},
        **{"rate": row["rate_sum_bytes_per_s"] or 0, "color": MONTH_COLORS[parity[row["week"][:7]]]},
        "mean": "none" if row["mean_bps"] is None else scaled(row["mean_bps"], "bit/s"),
        "covered": percent(row["covered_share"]),
    }


def chart(rows: list[dict]) -> alt.LayerChart:
    """Return the bars over the bands."""
    months = dict.fromkeys(row["week"][:7] for row in rows)
    parity = {month: index % 2 for index, month in enumerate(months)}
    bars = [bar(row, parity) for row in rows]
    highest = 1.05 * max(value["rate"] for value in bars) or 1
    gaps = [value for value, row in zip(bars, rows, strict=True) if row["mean_bps"] is None]
    x = alt.X(
        "week:T",
        title="week",
        scale=alt.Scale(type="utc", domain=[bars[0]["week"], bars[-1]["next"]], nice=False),
        axis=alt.Axis(format="%Y-%m-%d", tickCount=7, labelAngle=0, grid=False),
    )
    y = alt.Y(
        "rate:Q",
        title="sum of rate samples (B/s)",
        axis=alt.Axis(format="~s", labelExpr=theme.PREFIXED, tickCount=5),
        scale=alt.Scale(domain=[0, highest], nice=False),
    )
    bar_layer = (
        alt.Chart(Rows(values=bars))
        .mark_rect(stroke=theme.WHITE, strokeWidth=0.5)
        .encode(
            **{"x": x, "x2": "next:T", "y": y, "y2": alt.datum(0)},
            color=alt.Color("color:N", scale=None),
            tooltip=[alt.Tooltip(f"{name}:N") for name in ("week", "mean", "covered")],
        )
    )
    bands = alt.Chart(Rows(values=gaps)).mark_rect(color=GAP_COLOR).encode(x=x, x2="next:T")
    return alt.layer(*([bands] if gaps else []), bar_layer).properties(width=theme.WIDTH - 80, height=HEIGHT)
