"""Figure infrastructure_activity of the report, described by ABOUT."""

import altair as alt

from acapella.common.wording import count, percent, scaled, short_labels

from . import infrastructure_scope, theme
from .compose import Figure
from .rows import Rows
from .source import NoData, Source

SUBJECT = "Sites by activity"
ABOUT = "Sites ranked by the activity of their switch ports (Patchwork, section 5)."
TABLE = "infrastructure_activity"
COLUMNS = ("rank", "site", "mean_bps", "share", "active_ports")
SCOPE = infrastructure_scope.no_scope
MAX_LABEL = 24
HALF = 0.5


def draw(source: Source) -> Figure:
    """Draw a bar per site, the most active first."""
    rows = source.rows(TABLE)
    if not rows:
        raise NoData("no port has two readings in successive bins (infrastructure.telemetry, infrastructure.bin_s)")
    key = (
        "Mean over time of the sum over the ports of a site, received and sent; a frame that crosses two ports of a "
        "switch counts at both. The Patchwork paper (section 5) ranks ports and sites, but prints no numbers.",
    )
    return Figure(title(rows), chart(rows), key)


def title(rows: list[dict]) -> str:
    """Return the title: the most active site, and how many of the most active sites have half of the activity."""
    if rows[0]["share"] is None:
        return f"None of {count(len(rows), 'site')} was active"
    total, sites = 0.0, 0
    for row in rows:
        total, sites = total + row["share"], sites + 1
        if total >= HALF:
            break
    first = f"{rows[0]['site']} is the most active site ({percent(rows[0]['share'])} of all activity)"
    verb = "has" if sites == 1 else "have"
    return f"{first}; {count(sites, 'site')} of {len(rows)} {verb} half of it"


def chart(rows: list[dict]) -> alt.LayerChart:
    """Return the bars with their rates."""
    labels = short_labels([row["site"] for row in rows], MAX_LABEL)
    values = [
        {
            **{"site": labels[row["site"]], "rate": row["mean_bps"], "text": scaled(row["mean_bps"], "bit/s")},
            **{"ports": row["ports"], "active": row["active_ports"], "rank": row["rank"]},
        }
        for row in rows
    ]
    y = alt.Y("site:N", sort=list(labels.values()), title=None, axis=alt.Axis(grid=False, domain=False, ticks=False))
    scale = alt.Scale(domain=[0, 1.14 * max(row["mean_bps"] for row in rows) or 1], nice=False)
    axis = alt.Axis(format="~s", labelExpr=theme.PREFIXED, tickCount=6)
    x = alt.X("rate:Q", title="mean rate of all ports (bit/s)", scale=scale, axis=axis)
    base = alt.Chart(Rows(values=values))
    bars = base.mark_bar().encode(
        x=x, y=y, tooltip=["rank:Q", "site:N", "text:N", "ports:Q", alt.Tooltip("active:Q", title="active ports")]
    )
    texts = base.mark_text(align="left", dx=4, color=theme.GRAY).encode(x=x, y=y, text="text:N")
    width = theme.WIDTH - theme.text_width(labels.values()) - 30
    return (bars + texts).properties(width=width, height=alt.Step(theme.row_height(len(rows))))
