"""Figure infrastructure_ports of the report, described by ABOUT."""

import altair as alt

from acapella.common.wording import count, digits, natural, short_labels

from . import infrastructure_scope, theme
from .compose import Figure
from .rows import Rows
from .source import NoData, Source

SUBJECT = "Switch ports of each site"
ABOUT = "Switch ports of each site, to other sites and to servers (Patchwork, figure 2)."
TABLE = "infrastructure_ports"
COLUMNS = ("site", "uplinks", "downlinks", "downlinks_from")
SCOPE = infrastructure_scope.no_scope
KINDS = {"uplinks": theme.VERMILION, "downlinks": theme.BLUE}
MAX_LABEL = 24


def draw(source: Source) -> Figure:
    """Draw a bar per site, divided into uplinks and downlinks."""
    rows = source.rows(TABLE)
    if not rows:
        raise NoData("no information model is given (infrastructure.advertisements)")
    rows.sort(key=lambda row: (-(row["uplinks"] + (row["downlinks"] or 0)), natural(row["site"])))
    return Figure(title(rows), chart(rows), notes(rows))


def title(rows: list[dict]) -> str:
    """Return the title: how many sites have more downlinks than uplinks, and the ratio of the sums."""
    with_downlinks = [row for row in rows if row["downlinks"] is not None]
    if not with_downlinks:
        return f"Uplinks of {count(len(rows), 'site')}; downlinks are unknown"
    more = sum(row["downlinks"] > row["uplinks"] for row in with_downlinks)
    uplinks, downlinks = (sum(row[kind] for row in with_downlinks) for kind in KINDS)
    ratio = f"; {digits(downlinks / uplinks)} downlinks per uplink" if uplinks else ""
    verb = "has" if more == 1 else "have"
    return f"{more} of {count(len(with_downlinks), 'site')} {verb} more downlinks than uplinks{ratio}"


def notes(rows: list[dict]) -> tuple[str, ...]:
    """Return the paper's statement, and the sources of the numbers of downlinks."""
    with_downlinks = [row for row in rows if row["downlinks"] is not None]
    more = sum(row["downlinks"] > row["uplinks"] for row in with_downlinks)
    parts = (
        [infrastructure_scope.comparison_note("ports", f"{more} of {len(with_downlinks)}")] if with_downlinks else []
    )
    from_nics = sum(row["downlinks_from"] == "nics" for row in rows)
    if from_nics:
        sites = count(from_nics, "site")
        parts.append(f"downlinks of {sites} are computed from NICs, because the model does not list these ports")
    if unknown := len(rows) - len(with_downlinks):
        parts.append(f"downlinks of {count(unknown, 'site')} are unknown")
    return (infrastructure_scope.note(*parts),)


def chart(rows: list[dict]) -> alt.LayerChart:
    """Return the bars, each with its numbers at the end."""
    labels = short_labels([row["site"] for row in rows], MAX_LABEL)
    values = [
        {"site": labels[row["site"]], "kind": kind, "ports": row[kind] or 0, "order": index}
        for row in rows
        for index, kind in enumerate(KINDS)
    ]
    ends = [
        {
            **{"site": labels[row["site"]], "ports": row["uplinks"] + (row["downlinks"] or 0)},
            "text": f"{row['uplinks']} + {'?' if row['downlinks'] is None else row['downlinks']}",
        }
        for row in rows
    ]
    y = alt.Y("site:N", sort=list(labels.values()), title=None, axis=alt.Axis(grid=False, domain=False, ticks=False))
    legend = alt.Legend(title=None, orient="bottom", symbolType="square", symbolStrokeWidth=0)
    highest = max(end["ports"] for end in ends)
    scale = alt.Scale(domain=[0, max(1, highest) * 1.08], nice=False)
    x = alt.X("ports:Q", title="switch ports", scale=scale, axis=alt.Axis(values=theme.whole_ticks(highest)))
    bars = (
        alt.Chart(Rows(values=values))
        .mark_bar()
        .encode(
            **{"x": x, "y": y, "order": "order:Q"},
            color=alt.Color(
                "kind:N",
                scale=alt.Scale(domain=list(KINDS), range=list(KINDS.values())),
                sort=list(KINDS),
                legend=legend,
            ),
            tooltip=["site:N", "kind:N", "ports:Q"],
        )
    )
    texts = alt.Chart(Rows(values=ends)).mark_text(align="left", dx=4, color=theme.GRAY).encode(x=x, y=y, text="text:N")
    width = theme.WIDTH - theme.text_width(labels.values()) - 30
    return (bars + texts).properties(width=width, height=alt.Step(theme.row_height(len(rows))))
