"""How large flows are once their snippets are stitched across samples: complementary distribution."""

import math

import altair as alt

from . import theme
from .compose import Figure
from .source import ALL, NoData, Source
from .wording import count, natural, scaled, short_labels

SUBJECT = "Flow sizes"
TABLE = "flow_sizes"
COLUMNS = ("scope", "site", "measure = wire", "bytes", "ccdf")
MEASURE = "wire"
STITCHED = "stitched across samples"
SINGLE = "single samples"
ONE_SITE = "one site, stitched"
EVERYTHING = "all sites, "
NAMED = 5  # as many sites get a colour each; of more, all are grey
PALETTE = (theme.ORANGE, theme.SKY, theme.GREEN, theme.VERMILION, theme.PURPLE)
LABEL = 24
BROAD = 4  # px: the campaign's line, under those of its sites
PERIOD = 15  # px: of the dashes of sites
# Ticks stand at powers of ten; these labels write them as 10 B, 1 kB, 100 GB, and shares in percent.
EXPONENT = "round(log(datum.value) / LN10)"
UNITS = "['B', 'kB', 'MB', 'GB', 'TB', 'PB']"
BYTES = f"format(pow(10, {EXPONENT} % 3), 'd') + ' ' + {UNITS}[floor({EXPONENT} / 3)]"
SHARE = "format(100 * datum.value, '~r') + ' %'"


def draw(source: Source) -> Figure:
    """Log-log: share of flows of at least so many bytes; the campaign, its sites, and single samples beside it."""
    rows = [row for row in source.wanted(TABLE) if row["measure"] == MEASURE and row["flows_ge"]]
    whole = lines_of(rows, "campaign", ALL)
    if not whole:
        raise NoData("no frame belongs to a flow (a flow needs an IP header)")
    sites = sorted({row["site"] for row in rows if row["scope"] == "site" and row["site"] != ALL}, key=natural)
    sites = sites if len(sites) > 1 else []
    labels = short_labels(sites, LABEL)
    named = len(sites) <= NAMED
    lines = [(labels[site] if named else ONE_SITE, lines_of(rows, "site", site)) for site in sites]
    stitched, single = (f"{EVERYTHING if sites else ''}{name}" for name in (STITCHED, SINGLE))
    total = [(stitched, whole), (single, lines_of(rows, "sample", ALL))]
    order = [stitched, single, *dict.fromkeys(name for name, _ in lines)]
    # What comes later lies on top: sites with a name on the broad lines of all, the grey crowd beneath them.
    lines = total + lines if named else lines + total[::-1]
    values = [{**row, "line": name} for name, line in lines for row in line]
    key = (
        "Sampled bytes on the wire without FCS: a lower bound where a flow was cut or not watched. A flow that several "
        "ports or sites show counts once, at its largest.",
    )
    return Figure(title(whole), chart(values, order), key)


def lines_of(rows: list[dict], scope: str, site: str) -> list[dict]:
    """One line's points, smallest threshold first."""
    return sorted((r for r in rows if r["scope"] == scope and r["site"] == site), key=lambda r: r["bytes"])


def title(whole: list[dict]) -> str:
    """Where the middle lies and how far the tail reaches; thresholds are ten a decade."""
    flows, last = whole[0]["flows"], whole[-1]
    below = next((row["bytes"] for row in whole if 2 * row["flows_ge"] <= row["flows"]), None)
    middle = f"half of {count(flows, 'directed flow')} carry less than {scaled(below, 'B')}; " if below else ""
    many = count(last["flows_ge"], "flow")
    verb = "carries" if last["flows_ge"] == 1 else "carry"
    text = f"{middle}{many} {verb} {scaled(last['bytes'], 'B')} or more"
    return text[0].upper() + text[1:]


def chart(values: list[dict], order: list[str]) -> alt.Chart:
    """The lines: the campaign's black and broad, the single samples' dashed, sites thin, so that each shows on another.

    The dashes of sites have one period, each shorter than the one before: where all coincide, each has its piece.
    """
    others = PALETTE if order[2:] != [ONE_SITE] else ("#ABABAB",)
    widths = [BROAD, 2.6, *[1.4] * (len(order) - 2)]
    dashes = [[1, 0], [5, 3], [1, 0], *([dash, PERIOD - dash] for dash in (12, 9, 6, 4))][: len(order)]
    if order[2:] == [ONE_SITE]:
        widths[2] = 0.9
    legend = alt.Legend(
        title=None, orient="bottom", columns=3, offset=2, symbolType="stroke", symbolSize=300, labelLimit=240
    )
    flat = [max([r["bytes"] for r in values if r["line"] == line and r["ccdf"] == 1], default=1) for line in order]
    least = min(flat)  # to the left of it every line is flat
    x = [least, max(10 * least, *(row["bytes"] for row in values))]
    values = [row for row in values if row["bytes"] >= least]
    y = [min(0.1, *(row["ccdf"] for row in values)) / 1.3, 1]
    return (
        alt.Chart(alt.Data(values=values))
        .mark_line(interpolate="linear")
        .encode(
            x=alt.X(
                "bytes:Q",
                title="flow size (B on the wire)",
                scale=alt.Scale(type="log", domain=x, nice=False),
                axis=alt.Axis(labelExpr=BYTES, values=powers(*x), domain=False),
            ),
            y=alt.Y(
                "ccdf:Q",
                title="share of flows of at least that size",
                scale=alt.Scale(type="log", domain=y, nice=False),
                axis=alt.Axis(labelExpr=SHARE, values=powers(*y), domain=False),
            ),
            color=alt.Color(
                "line:N",
                sort=order,
                scale=alt.Scale(domain=order, range=["#000000", theme.BLUE, *others]),
                legend=legend,
            ),
            strokeDash=alt.StrokeDash("line:N", sort=order, scale=alt.Scale(domain=order, range=dashes), legend=legend),
            strokeWidth=alt.StrokeWidth(
                "line:N", sort=order, scale=alt.Scale(type="ordinal", domain=order, range=widths), legend=legend
            ),
            detail="site:N",
            tooltip=[
                *(alt.Tooltip("line:N", title="of"), alt.Tooltip("site:N")),
                alt.Tooltip("bytes:Q", title="at least, B", format=","),
                alt.Tooltip("flows_ge:Q", title="flows", format=","),
                alt.Tooltip("flows:Q", title="of flows", format=","),
                alt.Tooltip("samples:Q", format=","),
            ],
        )
        .properties(width=theme.WIDTH - 80, height=300)
    )


def powers(low: float, high: float) -> list[float]:
    """The powers of ten from ``low`` to ``high``."""
    return [10.0**k for k in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
