"""Figure outcome_reasons of the report, described by ABOUT."""

from collections import Counter

import altair as alt

from acapella.campaign.outcomes import SUCCESS
from acapella.common.wording import count, percent, shortened

from . import theme
from .compose import Figure, text_figure
from .outcomes import COLORS, scope
from .rows import Rows
from .source import NoData, Source

SUBJECT = "Reasons for unsuccessful collections"
ABOUT = "Reasons why sites were degraded, incomplete or failed, over all collections (Patchwork, section 8.1.1)."
TABLE = "outcome_reasons"
COLUMNS = ("outcome", "reason", "sites", "reason_share", "site_share")
SCOPE = scope
MAX_REASONS = 15  # bars of reasons; if there are more reasons, the last bar is the sum of the rest
MAX_LABEL = 100
UNKNOWN = "no reason given"


def draw(source: Source) -> Figure:
    """Draw a bar per reason, stacked by outcome, with the reason and its number of sites above."""
    rows = source.rows(TABLE)
    if not rows:
        sites = sum(row["sites_of_all"] for row in source.rows("outcomes") if row["outcome"] == SUCCESS)
        if not sites:
            raise NoData("nothing was collected from a testbed")
        return all_succeeded(sites)
    sites = Counter()
    for row in rows:
        sites[row["reason"]] += row["sites"]
    ranked = sorted(sites, key=lambda reason: (-sites[reason], reason))
    drawn_reasons = ranked if len(ranked) <= MAX_REASONS else ranked[: MAX_REASONS - 1]
    names = {reason: str(index) for index, reason in enumerate(drawn_reasons)}
    rest_row = str(len(drawn_reasons))
    parts = Counter()
    for row in rows:
        parts[names.get(row["reason"], rest_row), row["outcome"]] += row["sites"]
    texts = {names[reason]: shortened(reason or UNKNOWN, MAX_LABEL) for reason in drawn_reasons}
    if len(ranked) > len(drawn_reasons):
        texts[rest_row] = f"{len(ranked) - len(drawn_reasons)} other reasons"
    unsuccessful = rows[0]["unsuccessful_sites"]
    captions = [{"row": row, "text": caption(row, text, parts, unsuccessful)} for row, text in texts.items()]
    values = [
        {
            **{"row": row, "outcome": outcome, "order": list(COLORS).index(outcome), "reason": texts[row]},
            **{
                "share": 100 * number / unsuccessful,
                "text": f"{count(number, 'site')}, {percent(number / unsuccessful)}",
            },
        }
        for (row, outcome), number in parts.items()
    ]
    return Figure(title(rows, sites), chart(values, captions, unsuccessful), notes_of(rows))


def all_succeeded(sites: int) -> Figure:
    """Return the figure for collections in which every site succeeded."""
    subject = "The site" if sites == 1 else f"All {count(sites, 'site')}"
    return text_figure(
        f"{subject} succeeded", "No site was degraded, incomplete or failed, so there is no reason to show."
    )


def caption(row: str, text: str, parts: Counter, unsuccessful: int) -> str:
    """Return a reason with its share and number of sites."""
    number = sum(sites for (bar, _), sites in parts.items() if bar == row)
    return f"{text}: {percent(number / unsuccessful)} ({count(number, 'site')})"


def title(rows: list[dict], sites: Counter) -> str:
    """Return the title: the number of unsuccessful sites, and the most frequent reasons.

    The share is of all sites. Reasons are given only with the number of sites, because their shares in the chart refer
    to the unsuccessful sites.
    """
    unsuccessful, all_sites = rows[0]["unsuccessful_sites"], rows[0]["sites_of_all"]
    verb = "was" if unsuccessful == 1 else "were"
    sites_text = f"{unsuccessful:,} of {count(all_sites, 'site')} ({percent(unsuccessful / all_sites)})"
    statement = f"{sites_text} {verb} degraded, incomplete or failed"
    max_sites = max(sites.values())
    most_frequent = [reason for reason, number in sites.items() if number == max_sites]
    if most_frequent == [""]:
        return statement
    if len(most_frequent) > 1:
        return f"{statement}; {len(most_frequent)} reasons are equally frequent ({count(max_sites, 'site')} each)"
    return f"{statement}; most frequent reason: {shortened(most_frequent[0], MAX_LABEL)} ({count(max_sites, 'site')})"


def notes_of(rows: list[dict]) -> tuple[str, ...]:
    """Return a note on the total of which shares are given, and on the placeholders in reasons."""
    sites = count(rows[0]["unsuccessful_sites"], "site")
    return (f"Shares are of the {sites} that did not succeed; N: any number; SITE: name of the site.",)


def chart(values: list[dict], captions: list[dict], unsuccessful: int) -> alt.LayerChart:
    """Return the bars, each below its reason."""
    order = [label["row"] for label in captions]
    names = [name for name in COLORS if any(value["outcome"] == name for value in values)]
    scale = alt.Scale(domain=names, range=[COLORS[name] for name in names])
    legend = alt.Legend(title=None, orient="bottom", symbolType="square", symbolStrokeWidth=0)
    y = alt.Y("row:N", sort=order, title=None, axis=None)
    x = alt.X(
        "share:Q", title=f"share of the {count(unsuccessful, 'unsuccessful site')} (%)", axis=alt.Axis(grid=False)
    )
    bars = alt.Chart(Rows(values=values)).mark_bar(height=10, yOffset=7)
    bars = bars.encode(
        **{"x": x, "y": y, "order": "order:Q"},
        color=alt.Color("outcome:N", scale=scale, sort=names, legend=legend),
        tooltip=[alt.Tooltip(f"{field}:N") for field in ("reason", "outcome", "text")],
    )
    texts = alt.Chart(Rows(values=captions)).mark_text(align="left", yOffset=-6)
    texts = texts.encode(y=y, x=alt.value(0), text="text:N")
    return (bars + texts).properties(width=theme.WIDTH - 40, height=alt.Step(29))
