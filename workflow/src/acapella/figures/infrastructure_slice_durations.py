"""Figure infrastructure_slice_durations of the report, described by ABOUT."""

import altair as alt

from acapella.common.wording import count, percent

from . import infrastructure_scope, theme
from .compose import Figure
from .rows import Rows
from .source import NoData, Source

SUBJECT = "Durations of slices"
ABOUT = "Distribution of the durations of slices (Patchwork, figure 4)."
TABLE = "infrastructure_slice_durations"
COLUMNS = ("hours", "slices_at_most", "share_at_most")
SCOPE = infrastructure_scope.no_scope
LEASE_NOTE = "records from the orchestrator's list of slices contain the end of the lease, not of the slice"
HEIGHT = 240
DAY_H = 24
TICKS = (1, 2, 4, 8, 12, 24, 48, 24 * 7, 24 * 14, 24 * 30, 24 * 90, 24 * 365)
TICK_LABELS = (  # hours below two days, then days
    "datum.value < 48 ? datum.value + ' h' : datum.value / 24 + ' d'"
)


def draw(source: Source) -> Figure:
    """Draw the cumulative distribution."""
    rows = source.rows(TABLE)
    if not rows:
        raise NoData("no slice record has a duration (infrastructure.slices)")
    summary = infrastructure_scope.summary(source)
    share, excluded = summary["within_24_h_share"], summary["slices"] - summary["slices_with_duration"]
    parts = [
        count(rows[-1]["slices_at_most"], "slice"),
        infrastructure_scope.comparison_note("within_24_h", percent(share)),
    ]
    parts.append(LEASE_NOTE)
    parts.append("durations are rounded up to whole hours; the paper's curve is smoothed, this one is not")
    if excluded:
        parts.append(f"not included: {count(excluded, 'slice')} that end before or when they start")
    title = f"{percent(share)} of slices last 24 hours or less"
    return Figure(title, chart(rows), (infrastructure_scope.note(*parts),))


def chart(rows: list[dict]) -> alt.LayerChart:
    """Return the steps of the distribution, and a line at 24 hours."""
    last = max(rows[-1]["hours"], 2 * DAY_H)
    values = [{"hours": 1, "share": 0.0, "slices": 0}] if rows[0]["hours"] > 1 else []
    values += [
        {"hours": row["hours"], "share": 100 * row["share_at_most"], "slices": row["slices_at_most"]} for row in rows
    ]
    values.append({**values[-1], "hours": last})
    x = alt.X(
        "hours:Q",
        title="duration of a slice (logarithmic)",
        scale=alt.Scale(type="log", domain=[1, last], nice=False),
        axis=alt.Axis(values=[tick for tick in TICKS if tick <= last], labelExpr=TICK_LABELS, tickCount=len(TICKS)),
    )
    y = alt.Y("share:Q", title="slices of at most that duration (%)", scale=alt.Scale(domain=[0, 100]))
    steps = (
        alt.Chart(Rows(values=values))
        .mark_line(interpolate="step-after", strokeWidth=1.8, color=theme.BLUE)
        .encode(
            **{"x": x, "y": y},
            tooltip=[
                alt.Tooltip("hours:Q", title="at most, h", format=","),
                alt.Tooltip("slices:Q", format=","),
                alt.Tooltip("share:Q", title="share (%)", format=".3~g"),
            ],
        )
    )
    day = alt.Chart(Rows(values=[{"hours": DAY_H}])).mark_rule(color=theme.GRAY, strokeDash=[4, 3]).encode(x="hours:Q")
    return alt.layer(day, steps).properties(width=theme.WIDTH - 80, height=HEIGHT)
