"""Figure infrastructure_slice_sites of the report, described by ABOUT."""

import altair as alt

from acapella.common.wording import count, percent

from . import infrastructure_scope, theme
from .compose import Figure
from .rows import Rows
from .source import NoData, Source

SUBJECT = "Sites of slices"
ABOUT = "Number of sites that slices use (Patchwork, figure 3)."
TABLE = "infrastructure_slice_sites"
COLUMNS = ("sites", "slices", "share")
SCOPE = infrastructure_scope.no_scope
HEIGHT = 220
MAX_TEXTS = 20  # sites; if a slice has more, bars have no number above them


def draw(source: Source) -> Figure:
    """Draw a bar per number of sites."""
    rows = source.rows(TABLE)
    if not rows:
        raise NoData("no slice record has sites (infrastructure.slices)")
    summary = infrastructure_scope.summary(source)
    single, several = summary["single_site_share"], summary["several_sites_share"]
    parts = [
        count(summary["slices_with_sites"], "slice"),
        infrastructure_scope.comparison_note("single_site", percent(single)),
    ]
    parts.append(infrastructure_scope.comparison_note("several_sites", percent(several)))
    if unknown := summary["slices"] - summary["slices_with_sites"]:
        parts.append(f"not included: {count(unknown, 'slice')} without known sites")
    title = f"{percent(single)} of slices use one site, {percent(several)} use several (at most {rows[-1]['sites']})"
    return Figure(title, chart(rows), (infrastructure_scope.note(*parts),))


def chart(rows: list[dict]) -> alt.LayerChart:
    """Return the bars."""
    values = [
        {"sites": row["sites"], "share": 100 * row["share"], "slices": row["slices"], "text": percent(row["share"])}
        for row in rows
    ]
    x = alt.X(
        "sites:O",
        title="sites of a slice",
        scale=alt.Scale(domain=list(range(1, rows[-1]["sites"] + 1))),
        axis=alt.Axis(labelAngle=0, grid=False),
    )
    y = alt.Y(
        "share:Q", title="share of slices (%)", scale=alt.Scale(domain=[0, 1.08 * max(v["share"] for v in values)])
    )
    base = alt.Chart(Rows(values=values))
    bars = base.mark_bar().encode(x=x, y=y, tooltip=["sites:O", "slices:Q", alt.Tooltip("share:Q", format=".3~g")])
    texts = base.mark_text(dy=-7, color=theme.GRAY).encode(x=x, y=y, text="text:N")
    layers = (bars, texts) if rows[-1]["sites"] <= MAX_TEXTS else (bars,)
    return alt.layer(*layers).properties(width=theme.WIDTH - 60, height=HEIGHT)
