"""Figure infrastructure_simultaneous of the report, described by ABOUT."""

from datetime import date, timedelta

import altair as alt

from acapella.common.wording import count, digits

from . import infrastructure_scope, theme
from .compose import Figure
from .rows import Rows
from .source import NoData, Source

SUBJECT = "Simultaneous slices"
ABOUT = "Slices that exist at the same time (Patchwork, figure 5)."
TABLE = "infrastructure_simultaneous"
COLUMNS = ("day", "slices_mean", "slices_min", "slices_max")
SCOPE = infrastructure_scope.no_scope
HEIGHT = 220
EPOCH, DAY_MS = date(1970, 1, 1), 86_400_000
BAND, MEAN, MEAN_OF_ALL = "smallest to largest of a day", "mean of a day", "mean of all days"
COLORS = {BAND: "#9CC7E5", MEAN: theme.BLUE, MEAN_OF_ALL: theme.VERMILION}
QUANTITIES = ("simultaneous_mean", "simultaneous_stddev", "simultaneous_max")


def draw(source: Source) -> Figure:
    """Draw the mean and the range of each day."""
    rows = source.rows(TABLE)
    if not rows:
        raise NoData("the slice records span no time (infrastructure.slices)")
    summary = infrastructure_scope.summary(source)
    mean, deviation, highest = (summary[name] for name in QUANTITIES)
    parts = [count(len(rows), "day")]
    parts += [
        infrastructure_scope.comparison_note(name, digits(value))
        for name, value in zip(QUANTITIES, (mean, deviation, highest), strict=True)
    ]
    parts.append("slices that began before the records are missing")
    title = (
        f"{digits(mean)} slices at the same time on average, standard deviation {digits(deviation)}, at most "
        f"{digits(highest)}"
    )
    return Figure(title, chart(rows, mean), (infrastructure_scope.note(*parts),))


def chart(rows: list[dict], mean: float) -> alt.LayerChart:
    """Return a band from the smallest to the largest number, the mean of each day, and the mean of all."""
    values = [
        {"day": row["day"], "mean": row["slices_mean"], "low": row["slices_min"], "high": row["slices_max"]}
        for row in rows
    ]
    first, last = (date.fromisoformat(rows[index]["day"]) for index in (0, -1))
    end = (last + timedelta(days=1)).isoformat()
    ticks = [
        (first + timedelta(days=days) - EPOCH).days * DAY_MS for days in theme.whole_ticks((last - first).days + 1)
    ]
    values.append({**values[-1], "day": end})  # the last step ends with its day
    x = alt.X(
        "day:T",
        title="day (UTC)",
        scale=alt.Scale(type="utc", domain=[values[0]["day"], end], nice=False),
        axis=alt.Axis(format="%Y-%m-%d", values=ticks, labelAngle=0),
    )
    y_title = "slices at the same time"
    color = {"scale": alt.Scale(domain=list(COLORS), range=list(COLORS.values())), "legend": LEGEND}
    base = alt.Chart(Rows(values=values))
    tooltip = [alt.Tooltip("day:N"), alt.Tooltip("mean:Q", format=".3~g"), alt.Tooltip("low:Q"), alt.Tooltip("high:Q")]
    band = base.mark_area(interpolate="step-after").encode(
        x=x, y=alt.Y("low:Q", title=y_title), y2="high:Q", color=alt.Color("kind:N", **color), tooltip=tooltip
    )
    line = base.mark_line(interpolate="step-after", strokeWidth=1.4).encode(
        x=x, y=alt.Y("mean:Q", title=y_title), color=alt.Color("kind:N", **color), tooltip=tooltip
    )
    rule = (
        alt.Chart(Rows(values=[{"mean": mean, "kind": MEAN_OF_ALL}]))
        .mark_rule(strokeDash=[5, 3], strokeWidth=1.4)
        .encode(y="mean:Q", color=alt.Color("kind:N", **color))
    )
    layers = [band.transform_calculate(kind=f"'{BAND}'"), line.transform_calculate(kind=f"'{MEAN}'"), rule]
    return alt.layer(*layers).properties(width=theme.WIDTH - 80, height=HEIGHT)


LEGEND = alt.Legend(title=None, orient="bottom", symbolType="square", symbolStrokeWidth=0, labelLimit=220)
