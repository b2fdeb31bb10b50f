"""Figure transfer_agreement of the report, described by ABOUT."""

import altair as alt

from acapella.common.wording import GAP, count

from . import theme, transfer_scope
from .compose import Figure
from .source import NoData, Source

SUBJECT = "Agreement of iperf3 with the wire"
ABOUT = "iperf3 against the wire: the differences of four quantities, by cause if they exceed 1 %."
TABLE = "transfer_disagreements"
COLUMNS = ("quantity", "difference", "flagged", "cause")
SCOPE = transfer_scope.scope_of(lambda rows: rows)
QUANTITIES = {
    "sent": "bytes",
    "completion": "duration",
    "throughput": "throughput",
    "retransmits": "retransmissions",
}
AGREES = f"within 1{GAP}%"
CAUSES = {
    None: (AGREES, "#C4C4C4"),
    "headers": ("headers counted", theme.SKY),
    "start_up": ("start-up interval", theme.BLUE),
    "send_buffer": ("send buffer", theme.GREEN),
    "after_end": ("after the end", theme.YELLOW),
    "capture_loss": ("capture loss", theme.ORANGE),
    "unexplained": ("unexplained", theme.VERMILION),
}
# Bounds between the classes of differences, as shares; the outer classes are open.
BOUNDS = (-0.1, -0.01, 0.01, 0.1)
LABELS = ("< \N{MINUS SIGN}10", "\N{MINUS SIGN}10 to \N{MINUS SIGN}1", "\N{MINUS SIGN}1 to 1", "1 to 10", "> 10")
NO_SHARE = "wire: 0"
PANELS_PER_ROW = 2
WIDTH = 262
HEIGHT = 150


def draw(source: Source) -> Figure:
    """Draw a panel per quantity with the number of streams in each class of differences."""
    rows = source.rows(TABLE)
    if not rows:
        raise NoData("no run has a capture")
    classes = [*LABELS, NO_SHARE] if any(class_of(row) == NO_SHARE for row in rows) else list(LABELS)
    causes = [cause for cause in CAUSES if any(row["cause"] == cause for row in rows)]
    panels = [panel(rows, quantity, classes, causes) for quantity in QUANTITIES]
    lines = [alt.hconcat(*panels[n : n + PANELS_PER_ROW], spacing=30) for n in range(0, len(panels), PANELS_PER_ROW)]
    key = "one value per stream and quantity; difference: (iperf3 \N{MINUS SIGN} wire) / wire"
    return Figure(title(rows), alt.vconcat(*lines, spacing=16), (key,))


def class_of(row: dict) -> str:
    """Return the class of a difference."""
    if not row["flagged"]:
        return LABELS[len(LABELS) // 2]
    if row["difference"] is None:
        return NO_SHARE
    return LABELS[sum(row["difference"] > bound for bound in BOUNDS)]


def panel(rows: list[dict], quantity: str, classes: list[str], causes: list[str | None]) -> alt.LayerChart:
    """Return the panel of a quantity."""
    numbers: dict[tuple[str, str | None], int] = {}
    for row in rows:
        if row["quantity"] == quantity:
            key = (class_of(row), row["cause"])
            numbers[key] = numbers.get(key, 0) + 1
    values = [
        {"class": name, "cause": CAUSES[cause][0], "order": causes.index(cause), "streams": number}
        for (name, cause), number in numbers.items()
    ]
    scale = alt.Scale(domain=[CAUSES[cause][0] for cause in causes], range=[CAUSES[cause][1] for cause in causes])
    flagged = sum(row["flagged"] for row in rows if row["quantity"] == quantity)
    total = sum(row["quantity"] == quantity for row in rows)
    head = f"{QUANTITIES[quantity]}: {flagged} of {total} differ by more than 1{GAP}%"
    bars = (
        alt.Chart(alt.Data(values=values))
        .mark_bar(stroke=theme.WHITE, strokeWidth=0.5)
        .encode(
            x=alt.X(
                "class:N",
                sort=classes,
                title="difference (%)",
                scale=alt.Scale(domain=classes),
                axis=alt.Axis(labelAngle=0, ticks=False),
            ),
            y=alt.Y("streams:Q", title="streams", axis=alt.Axis(format="d", tickMinStep=1, tickCount=4)),
            color=alt.Color("cause:N", scale=scale, legend=alt.Legend(title=None, orient="bottom", columns=4)),
            order=alt.Order("order:Q"),
            tooltip=[alt.Tooltip("class:N"), alt.Tooltip("cause:N"), alt.Tooltip("streams:Q")],
        )
    )
    heading = alt.TitleParams(head, fontSize=theme.TEXT, offset=4, frame="group", color=theme.INK)
    return alt.layer(bars).properties(width=WIDTH, height=HEIGHT, title=heading)


def title(rows: list[dict]) -> str:
    """Return the title: how many values differ, and how many of these have no known cause."""
    flagged = [row for row in rows if row["flagged"]]
    unexplained = sum(row["cause"] == "unexplained" for row in flagged)
    return (
        f"iperf3 and the wire differ by more than 1{GAP}% in {len(flagged)} of {count(len(rows), 'value')}, "
        f"{unexplained} unexplained"
    )
