"""Figure monitor_rates of the report, described by ABOUT."""

import altair as alt

from acapella.common.wording import count

from . import monitor_scope, theme
from .compose import Figure
from .rows import Rows
from .source import NoData, Source

SUBJECT = "Rates captured without loss"
ABOUT = "Highest rate without loss against packet size, by number of ports and what is written (OSNT, figure 5)."
TABLE = "monitor_searches"
COLUMNS = ("ports", "frame_bytes", "capture", "measure", "rate_pps", "lost", "result", "limit", "searches")
COLORS = (theme.BLUE, theme.VERMILION, theme.GREEN, theme.PURPLE)
CAPTURES = {  # name, shape, and dashes
    "none": ("only counted", "circle", [1, 0]),
    "whole": ("written whole", "square", [6, 3]),
    "truncated": ("truncated, with 128-bit hash", "triangle-up", [2, 2]),
}
PUBLISHED = (
    "Published (OSNT, an FPGA): 10 Gb/s line rate with one port at any size, and up to 14 Gb/s with two ports, the "
    "limit of its PCIe bus. Here, generators, kernel and monitor share the processors of one machine."
)
KEY = (
    "Sum of all ports, of the packets as sent, without FCS, preamble and gap. At each point no packet was lost in the "
    "trial. If a size was searched and has no point, the lowest rate lost packets, or the generator did not reach it."
)
HEIGHT = 240  # px


def scope(source: Source) -> tuple[str, ...]:
    """Return the number of trials, and how many searches have ended unless all have."""
    rows = [row for row in source.rows(TABLE) if row["measure"] == "throughput"]
    text = f"{count(len(rows), 'trial')} of the searches of RFC 2544, section 26.1."
    return (f"{text} {monitor_scope.unfinished(source)}".strip(),)


SCOPE = scope


def draw(source: Source) -> Figure:
    """Draw a line for each number of ports and each kind of capture."""
    rows = [row for row in source.rows(TABLE) if row["measure"] == "throughput" and row["result"]]
    if not rows:
        raise NoData("no search found a rate without loss")
    values = [
        {
            "bytes": row["frame_bytes"],
            "gbps": gigabits(row),
            "ports": count(row["ports"], "port"),
            "capture": CAPTURES[row["capture"]][0],
            "pps": row["rate_pps"],
        }
        for row in sorted(rows, key=lambda row: (row["ports"], row["capture"], row["frame_bytes"]))
    ]
    return Figure(title(rows), chart(values), (KEY, limits_text(rows), PUBLISHED))


def limits_text(rows: list[dict]) -> str:
    """Return a sentence about what limited the rate of the points, with the number of points for each limit."""
    numbers = [sum(row["limit"] == limit for row in rows) for limit in ("loss", "generator", "range")]
    return (
        f"Limits of the {count(len(rows), 'point')}: loss at the next higher rate ({numbers[0]:,}), the generator, "
        f"which did not reach it ({numbers[1]:,}), the highest rate of the search ({numbers[2]:,})."
    )


def gigabits(row: dict) -> float:
    """Return the rate of a trial in Gbit/s."""
    return row["rate_pps"] * row["frame_bytes"] * 8 / 1e9


def title(rows: list[dict]) -> str:
    """Return the title: the highest rate of each number of ports, over all kinds of captures."""
    parts = []
    for ports in sorted({row["ports"] for row in rows}):
        best = max((row for row in rows if row["ports"] == ports), key=gigabits)
        bound = "" if best["limit"] == "loss" else "at least "
        parts.append(f"{bound}{gigabits(best):.3g} Gbit/s with {count(ports, 'port')}")
    return f"Highest rate without loss: {', '.join(parts)}"


def chart(values: list[dict]) -> alt.Chart:
    """Return the lines."""
    ports = list(dict.fromkeys(value["ports"] for value in values))
    kinds = [kind for kind in CAPTURES.values() if any(value["capture"] == kind[0] for value in values)]
    names, shapes, dashes = (list(part) for part in zip(*kinds, strict=True))
    legend = {"orient": "bottom", "symbolSize": 120, "labelLimit": 240}
    symbol_colors = {"symbolStrokeColor": theme.INK, "symbolFillColor": theme.INK}
    return (
        alt.Chart(Rows(values=values))
        .mark_line(strokeWidth=1.5, point=alt.OverlayMarkDef(size=40, filled=True, strokeDash=[1, 0]))
        .encode(
            x=alt.X(
                "bytes:Q",
                title="packet size (B, without FCS)",
                scale=alt.Scale(domain=[0, 1.03 * max(value["bytes"] for value in values)], nice=False),
                axis=alt.Axis(tickCount=8, domain=False, format=",d"),
            ),
            y=alt.Y(
                "gbps:Q",
                title="rate without loss (Gbit/s)",
                scale=alt.Scale(domain=[0, 1.08 * max(value["gbps"] for value in values)], nice=False),
                axis=alt.Axis(tickCount=6, domain=False),
            ),
            color=alt.Color(
                "ports:N", sort=ports, scale=alt.Scale(domain=ports, range=[*COLORS[: len(ports)]]),
                legend=alt.Legend(title="sending", **legend),
            ),
            shape=alt.Shape(
                "capture:N", sort=names, scale=alt.Scale(domain=names, range=shapes),
                legend=alt.Legend(title="packets", **legend, **symbol_colors),
            ),
            strokeDash=alt.StrokeDash(
                "capture:N", sort=names, scale=alt.Scale(domain=names, range=dashes),
                legend=alt.Legend(title="packets", **legend, **symbol_colors),
            ),
            tooltip=[
                *(alt.Tooltip("ports:N"), alt.Tooltip("capture:N")),
                alt.Tooltip("bytes:Q", title="packet size (B)"),
                alt.Tooltip("gbps:Q", title="Gbit/s", format=".4~g"),
                alt.Tooltip("pps:Q", title="packets/s", format=",.0f"),
            ],
        )
        .properties(width=theme.WIDTH - 60, height=HEIGHT)
    )  # fmt: skip
