"""Figure encapsulations of the report, described by ABOUT."""

import altair as alt

from acapella.common.wording import count, natural, percent, shortened

from . import site_dots, theme
from .compose import Figure
from .rows import Rows
from .source import ALL, Source

SUBJECT = "Encapsulations"
ABOUT = "Headers before the innermost network header, as shares of frames."
TABLE = "encapsulations"
COLUMNS = ("encapsulation", "share", "share_lo", "share_hi")
MAX_ENCAPSULATIONS = 14
MAX_TITLE_LABEL = 50  # characters per label in the title
BARS = theme.WIDTH - 162  # px: width of a 100 % bar; labels above bars are not wider
NONE = "none (the frame starts with IP)"
ROW = 31  # px
BAR, MIDDLE = 13, 7  # px: height of a bar, and its distance below the middle of the row
TITLE_TEXTS = {
    "Ethernet": "are plain Ethernet (no tag, no tunnel with a decoded network header)",
    "none": "start with IP (no Ethernet, no tunnel with a decoded network header)",
}


def draw(source: Source) -> Figure:
    """Draw one bar per encapsulation with its interval and label and, if there are several sites, one dot per site."""
    rows = source.required_rows(TABLE)
    ranked = sorted((r for r in rows if r["site"] == ALL), key=lambda r: (-r["share"], natural(r["encapsulation"])))
    rank = {row["encapsulation"]: index for index, row in enumerate(ranked[:MAX_ENCAPSULATIONS])}
    several = len(source.sites) > 1
    values = [bar_values(row, rank) for row in ranked[:MAX_ENCAPSULATIONS]]
    empty_row = {"frames": 0, "share": 0.0, "share_lo": None, "share_hi": None}
    site_rows = site_dots.add_absent_sites(rows, "encapsulation", rank, empty_row) if several else []
    dots = [bar_values(row, rank) for row in site_rows]
    key = ["Bar: share of all frames"]
    if any(row["low"] is not None for row in values):
        key.append("line: its 95 % bootstrap interval over samples")
    if several:
        key.append(site_dots.legend_note(source.sites))
    if any(not dot["frames"] for dot in dots):
        key.append("at 0: the site has no frame with the encapsulation")
    if len(ranked) > MAX_ENCAPSULATIONS:
        rest_share = sum(row["share"] for row in ranked[MAX_ENCAPSULATIONS:])
        rarer = count(len(ranked) - MAX_ENCAPSULATIONS, "rarer encapsulation")
        key.append(f"{rarer} not shown, {percent(rest_share)} of frames together")
    return Figure(title(ranked), chart(values, dots, source.sites), ("; ".join(key) + ".",))


def bar_values(row: dict, rank: dict) -> dict:
    """Return the values of one row in the chart, shares in percent."""
    low, high = row["share_lo"], row["share_hi"]
    name = NONE if row["encapsulation"] == "none" else row["encapsulation"]
    interval = "" if low is None else f"  ({percent(low)} to {percent(high)})"
    return {
        **{"encapsulation": name, "label": shorten_to_bars(name), "place": rank[row["encapsulation"]]},
        **{"site": row["site"], "frames": row["frames"], "samples": row["samples"]},
        **{"share": 100 * row["share"], "text": percent(row["share"]) + interval},
        "low": None if low is None else 100 * low,
        "high": None if high is None else 100 * high,
    }


def shorten_to_bars(name: str) -> str:
    """Return a label that is at most as wide as a bar of 100 %."""
    limit = len(name)
    while theme.text_width([shortened(name, limit)], theme.SMALL) > BARS:
        limit -= 1
    return shortened(name, limit)


def title(ranked: list[dict]) -> str:
    """Return the number of encapsulations and the share of the most common one."""
    first = ranked[0]
    name = first["encapsulation"]
    description = TITLE_TEXTS.get(name) or f"have only {shortened(name, MAX_TITLE_LABEL)}"
    if len(ranked) == 1:
        return f"All frames {description}"
    return f"{count(len(ranked), 'encapsulation')}; {percent(first['share'])} of frames {description}"


def chart(values: list[dict], dots: list[dict], sites: list[str]) -> alt.LayerChart:
    """Return bars with labels above and shares at the right."""
    x = alt.Scale(domain=[0, 100], nice=False)
    y = alt.Y("place:O", axis=None, scale=alt.Scale(paddingInner=0, paddingOuter=0))
    tooltip = [
        *(alt.Tooltip("site:N"), alt.Tooltip("encapsulation:N"), alt.Tooltip("text:N", title="share")),
        *(alt.Tooltip("frames:Q", format=","), alt.Tooltip("samples:Q", format=",")),
    ]
    base = alt.Chart(Rows(values=values)).encode(y=y, tooltip=tooltip)
    axis = alt.Axis(title="share of frames (%)", domain=False)
    bars = base.mark_bar(height=BAR, color=site_dots.BAR_COLOR, yOffset=MIDDLE)
    bars = bars.encode(x=alt.X("share:Q", scale=x, axis=axis))
    lines = base.transform_filter("datum.low !== null").mark_rule(strokeWidth=1.6, color=theme.BLACK, yOffset=MIDDLE)
    lines = lines.encode(x=alt.X("low:Q", scale=x), x2="high:Q")
    labels = base.mark_text(align="left", dy=MIDDLE - 14, fontSize=theme.SMALL).encode(x=alt.value(2), text="label:N")
    shares = base.mark_text(align="left", dy=MIDDLE, fontSize=theme.SMALL).encode(x=alt.value(BARS + 6), text="text:N")
    layers = [bars, lines, labels, shares]
    if dots:
        encoding = {"x": alt.X("share:Q", scale=x), "y": y, "tooltip": tooltip}
        layers += site_dots.layers(dots, sites, BAR, MIDDLE, encoding)
    return alt.layer(*layers).properties(width=BARS, height=alt.Step(ROW))
