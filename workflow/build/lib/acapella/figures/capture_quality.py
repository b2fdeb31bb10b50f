"""What the captures lost, how coarse their clocks were, how long somebody looked, and what was malformed."""

from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

import altair as alt

from . import theme
from .compose import Figure
from .quality import STAGES, mirror_loss, scope_of_all
from .source import NoData, Source, sites_of
from .wording import count, nanoseconds, percent, scaled, short_labels

SUBJECT = "Capture quality"
TABLE = "capture_quality"
COLUMNS = ("loss_share", "equal_stamps_share", "clock_resolution_ns", "port_coverage_share")
COLUMNS += ("issue_frames", "frames", "file_unread_bytes")
SCOPE = scope_of_all
LABEL = 24
INK = 0.45  # opacity of one sample's mark
NAMED = 4  # samples that the pointer names
LEAST = 1e-4  # %; shares below it, 0 too, stand at the left edge
PANELS = (
    ("loss", ("frames", "lost (%)")),
    ("stamps", ("repeated", "stamps (%)")),
    ("issues", ("malformed", "or cut (%)")),
    ("coverage", ("time", "watched (%)")),
)


class Gap(NamedTuple):
    """Something not known of a sample's loss: its column's heading, which samples have it, what it means."""

    heading: tuple[str, str]
    holds: Callable[[dict], bool]
    about: str


GAPS = (
    Gap(
        ("samples, loss", "unknown"),
        lambda row: row["lost_frames"] is None,
        "Loss unknown: no counter of mirror, interface or kernel.",
    ),
    Gap(
        ("samples, loss", "known in part"),
        lambda row: row["lost_frames"] is not None and row["loss_stages_known"] < STAGES,
        "Loss known in part: some of mirror, interface, kernel and file have no counter, so there may be more.",
    ),
)


def draw(source: Source) -> Figure:
    """A row a site, four panels, a mark for each sample; what is unknown is counted, never drawn as 0."""
    rows = source.quality
    if not rows:
        raise NoData("the campaign has no samples")
    labels = short_labels(sites_of(rows), LABEL)
    order = list(labels.values())
    gaps = [gap for gap in GAPS if any(gap.holds(row) for row in rows)]
    width = (theme.WIDTH - theme.text_width(order) - 150 - 66 * len(gaps)) // len(PANELS)
    panels = [
        panel(marks(rows, labels, which[0]), order, which, width, first=not place) for place, which in enumerate(PANELS)
    ]
    panels[1:1] = [counted(rows, labels, order, gap) for gap in gaps]
    key = (
        "One mark per sample, darker if several coincide. Shares of frames have logarithmic axes, whose left edge "
        "stands for 0 and for less than 0.0001 %. Repeated stamps: frames stamped as the frame before.",
        *([" ".join(gap.about for gap in gaps)] if gaps else []),
        clocks(rows),
        *unread(rows),
    )
    return Figure(title(rows), alt.hconcat(*panels, spacing=14), key)


def share(row: dict, column: str) -> float | None:
    """What a panel shows of one sample, as a fraction; None where unknown."""
    if column == "loss" and row["lost_frames"] is None:
        return None
    if column == "issues":
        return row["issue_frames"] / row["frames"] if row["frames"] else None
    return row[{"loss": "loss_share", "stamps": "equal_stamps_share", "coverage": "port_coverage_share"}[column]]


def marks(rows: list[dict], labels: dict, column: str) -> list[dict]:
    """What a panel draws: samples of a site that show the same number in words are one mark, the darker the more."""
    places = defaultdict(list)
    for row in rows:
        value = share(row, column)
        if value is not None:
            places[row["site"], percent(value)].append((value, row["sample"]))
    return [
        {
            **{"site": site, "label": labels[site], "text": text, "samples": len(own)},
            **{"percent": max(LEAST if column != "coverage" else 0, 100 * own[0][0])},
            "named": ", ".join(name for _, name in own[:NAMED]) + (", ..." if len(own) > NAMED else ""),
            "ink": round(1 - (1 - INK) ** len(own), 3),
        }
        for (site, text), own in places.items()
    ]


def title(rows: list[dict]) -> str:
    """How many samples lost nothing, some, or are not known."""
    known = [row["loss_share"] or 0 for row in rows if row["lost_frames"] is not None]
    blind = f"no counters in {len(rows) - len(known):,} of {count(len(rows), 'sample')}"
    mirror = mirror_loss(rows)
    if not known:
        return "; ".join([f"Loss unknown: {blind}", *mirror])
    lossy = sum(share > 0 for share in known)
    of = count(len(known), "sample")
    partly = any(row["lost_frames"] is not None and row["loss_stages_known"] < STAGES for row in rows)
    least = "at least " if partly or mirror else ""
    text = f"No loss {'counted' if least else 'seen'} in {of}"
    if lossy:
        text = f"{least.capitalize()}{lossy:,} of {of} lost frames, the worst {least}{percent(max(known))}"
    return "; ".join([text, *([] if len(known) == len(rows) else [blind]), *mirror])


def clocks(rows: list[dict]) -> str:
    """The clock resolutions seen, finest first, with their samples."""
    seen = {}
    for row in sorted(rows, key=lambda row: row["clock_resolution_ns"] or 0):
        value = row["clock_resolution_ns"]
        name = "unknown" if value is None else nanoseconds(value)
        seen[name] = seen.get(name, 0) + 1
    named = [f"{name} ({count(number, 'sample')})" for name, number in seen.items()]
    return f"Clock resolution: {', '.join(named)}."


def unread(rows: list[dict]) -> tuple[str, ...]:
    """What files hold behind a fault that ended their reading: frames there are in no panel."""
    bad = [row for row in rows if row["file_unread_bytes"]]
    if not bad:
        return ()
    size = scaled(sum(row["file_unread_bytes"] for row in bad), "B")
    return (f"Not read behind a fault: {size} of {count(len(bad), 'file')}; frames in them are in no panel.",)


def panel(values, order, which, width, *, first) -> alt.Chart:
    """The marks of one panel over one row a site."""
    column, name = which
    log = column != "coverage"
    scale = alt.Scale(type="log", domain=[LEAST, 100], clamp=True) if log else alt.Scale(domain=[0, 100])
    ticks = {"values": [0.0001, 0.01, 1, 100]} if log else {"values": [0, 25, 50, 75, 100]}
    label = "datum.value <= 0.00011 ? '0' : format(datum.value, '~r')" if log else "datum.label"
    return (
        alt.Chart(alt.Data(values=values))
        .mark_circle(size=34, color=theme.BLUE)
        .encode(
            x=alt.X("percent:Q", title=list(name), scale=scale, axis=alt.Axis(labelExpr=label, domain=False, **ticks)),
            y=alt.Y(
                "label:N",
                scale=alt.Scale(domain=order),
                title=None,
                axis=alt.Axis(labels=first, ticks=False, domain=False, grid=True, labelPadding=9),
            ),
            opacity=alt.Opacity("ink:Q", scale=None, legend=None),
            tooltip=[
                *(alt.Tooltip("site:N"), alt.Tooltip("text:N", title=" ".join(name).removesuffix(" (%)"))),
                *(alt.Tooltip("samples:Q", format=","), alt.Tooltip("named:N", title="these")),
            ],
        )
        .properties(width=width, height=alt.Step(theme.row_height(len(order), total=330)))
    )


def counted(rows: list[dict], labels: dict, order: list[str], gap: Gap) -> alt.Chart:
    """A column of words: how many samples of each site have a gap in what is known of their loss."""
    values = []
    for site, label in labels.items():
        own = [row for row in rows if row["site"] == site]
        number = sum(gap.holds(row) for row in own)
        values.append({"label": label, "text": f"{number:,} of {len(own):,}" if number else "", "middle": 0.5})
    axis = alt.Axis(labels=False, ticks=False, domain=False, grid=False, titlePadding=19)
    return (
        alt.Chart(alt.Data(values=values))
        .mark_text(fontSize=theme.SMALL)
        .encode(
            x=alt.X("middle:Q", title=list(gap.heading), axis=axis, scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("label:N", scale=alt.Scale(domain=order), axis=None),
            text="text:N",
        )
        .properties(width=52, height=alt.Step(theme.row_height(len(order), total=330)))
    )
