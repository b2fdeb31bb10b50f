"""Figure capture_quality of the report, described by ABOUT."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import altair as alt

from acapella.campaign.clocks import MIN_TIMESTAMPS, clock_resolution, too_few_timestamps
from acapella.common.wording import GAP, count, listed, nanoseconds, percent, scaled, short_labels, span

from . import theme
from .compose import Figure
from .quality import STAGES, mirror_loss, mirror_loss_uncounted, scope_of_all
from .rows import Rows
from .silences import coverage_notes
from .source import NoData, Source, sites_of

SUBJECT = "Capture quality"
ABOUT = "Losses, clock resolution, malformed frames, incomplete files, and captured time of each sample."
TABLE = "capture_quality"
COLUMNS = ("loss_share", "equal_stamps_share", "clock_resolution_ns", "port_coverage_share")
COLUMNS += ("issue_frames", "frames", "file_issue", "file_unread_bytes", "silence_ns")
SCOPE = scope_of_all
MAX_LABEL = 24
MARK = 16  # px: width reserved for a circle with a number, and for 0 at the left end of a logarithmic axis
COUNT_WIDTH = 52  # px: width of a column of text
DOT = 8  # px: width reserved for a dot; marks of a site that would overlap are merged
MAX_NAMED = 4  # samples listed in a tooltip or a note
AXIS_MIN, AXIS_MAX = 1e-4, 100  # %: the logarithmic axes; 0 is at their left edge, ``MARK`` px from AXIS_MIN
NARROW = 80  # px: the labels of all ticks fit into wider panels
TICKS = {"coverage": ((0, 25, 50, 75, 100), (0, 50, 100)), "shares": ((0, 0.01, 1, 100), (0, 0.01, 100))}
PANELS = (
    ("loss", ("frames", "lost (%)")),
    ("stamps", ("repeated", "timestamps (%)")),
    ("issues", ("malformed or", "truncated (%)")),
    ("coverage", ("time", "captured (%)")),
)


class CountColumn(NamedTuple):
    """A column of text with the number of samples that a statement applies to: its heading, and an explanation."""

    heading: tuple[str, str]
    applies_to: Callable[[dict], bool]
    explanation: str


UNKNOWN_LOSSES = (
    CountColumn(
        ("samples, loss", "unknown"),
        lambda row: row["lost_frames"] is None,
        "Loss unknown: no counter of mirror, interface or kernel.",
    ),
    CountColumn(
        ("samples, loss", "partly known"),
        lambda row: row["lost_frames"] is not None and row["loss_stages_known"] < STAGES,
        "Loss partly known: mirror, interface, kernel or file has no counter, so it may be larger.",
    ),
)
INCOMPLETE_FILES = CountColumn(
    ("truncated or", "damaged files"),
    lambda row: row["file_issue"] is not None,
    "Truncated or damaged: the file ends within a frame, or contains an error; later frames are not read",
)
COLUMNS_AFTER = {"loss": UNKNOWN_LOSSES, "issues": (INCOMPLETE_FILES,)}  # by panel, whether or not it is drawn


def draw(source: Source) -> Figure:
    """Draw four panels with a row per site and a mark per sample; unknown losses are counted, not drawn as 0.

    A panel without a known value is omitted, and so is a column of numbers of samples if all are 0.
    """
    rows = source.quality
    if not rows:
        raise NoData("the campaign has no samples")
    labels = short_labels(sites_of(rows), MAX_LABEL)
    order = list(labels.values())
    kinds = [kind for kind in UNKNOWN_LOSSES if any(map(kind.applies_to, rows))]
    drawn = [entry for entry in PANELS if any(share(row, entry[0]) is not None for row in rows)] or PANELS
    parts: list[tuple | CountColumn] = []
    for entry in PANELS:
        parts += [entry] * (entry in drawn)
        parts += [column for column in COLUMNS_AFTER.get(entry[0], ()) if any(map(column.applies_to, rows))]
    columns = len(parts) - len(drawn)
    width = (theme.WIDTH - theme.text_width(order) - 150 - (COUNT_WIDTH + 14) * columns) // len(drawn)
    panels = [
        count_column(rows, labels, order, part, first=not index)
        if isinstance(part, CountColumn)
        else panel(panel_marks(rows, labels, part[0], width), order, part, width, first=not index)
        for index, part in enumerate(parts)
    ]
    key = (
        "Dot: one sample; circle: number of samples whose dots would overlap, at their mean. Shares of frames have "
        f"logarithmic axes from {AXIS_MIN:.4f}{GAP}%, with 0 at the left edge. Frames lost: share of the offered "
        "frames that mirror, interface, kernel or file lost. Repeated timestamps: the timestamp equals that of the "
        "previous frame. Malformed or truncated: in headers of layers 2 to 4 and tunnels; others are not checked.",
        *omitted_panels(drawn),
        *without_repetitions(rows),
        *([" ".join(kind.explanation for kind in kinds)] if kinds else []),
        *coverage_notes(rows),
        clock_resolutions(rows),
        *incomplete_files(rows),
        *unread_bytes(rows),
    )
    return Figure(title(rows), alt.hconcat(*panels, spacing=14), key)


def omitted_panels(drawn: Sequence[tuple]) -> list[str]:
    """Return a note on the panels that are not drawn; [] if all are."""
    omitted = [" ".join(heading).removesuffix(" (%)") for column, heading in PANELS if (column, heading) not in drawn]
    return [f"Unknown for every sample, and not drawn: {listed(omitted)}."] if omitted else []


def without_repetitions(rows: list[dict]) -> tuple[str, ...]:
    """Return a note on the samples whose share of repeated timestamps is unknown; () if there are none, or only such
    samples, which `omitted_panels` describes.
    """
    unknown = sum(share(row, "stamps") is None for row in rows)
    if not unknown or unknown == len(rows):
        return ()
    samples = count(unknown, "sample")
    return (f"Repeated timestamps: no mark for {samples} with fewer than two frames or without timestamps.",)


def share(row: dict, column: str) -> float | None:
    """Return the value of a sample in a panel, as a fraction; None if it is unknown."""
    if column == "loss" and row["lost_frames"] is None:
        return None
    if column == "issues":
        return row["issue_frames"] / row["frames"] if row["frames"] else None
    return row[{"loss": "loss_share", "stamps": "equal_stamps_share", "coverage": "port_coverage_share"}[column]]


def panel_marks(rows: list[dict], labels: dict, column: str, width: int) -> list[dict]:
    """Return the marks of a panel of ``width`` px: samples of a site whose dots would overlap share one mark."""
    samples_by_site = defaultdict(list)
    for row in rows:
        value = share(row, column)
        if value is not None:
            samples_by_site[row["site"]].append((value, row["sample"]))
    return [
        {
            **{"site": site, "label": labels[site], "samples": len(group), "number": str(len(group)), "x": round(x, 2)},
            "text": span(percent(group[0][0]), percent(group[-1][0])),
            "named": ", ".join(name for _, name in group[:MAX_NAMED]) + (", ..." if len(group) > MAX_NAMED else ""),
        }
        for site, samples in samples_by_site.items()
        for x, group in group_overlapping(sorted(samples), column, width)
    ]


def axis_position(value: float, column: str, width: int) -> float:
    """Return the position of a fraction on a panel's axis, in px from its left edge."""
    if column == "coverage":
        return width * value
    if not value:
        return 0.0
    return MARK + (width - MARK) * math.log10(max(AXIS_MIN, 100 * value) / AXIS_MIN) / math.log10(AXIS_MAX / AXIS_MIN)


def group_overlapping(
    samples: list[tuple[float, str]], column: str, width: int
) -> list[tuple[float, list[tuple[float, str]]]]:
    """Return groups of samples whose marks do not overlap, each with its mean position in px.

    ``samples``: sorted by value. On a logarithmic axis, samples with 0 are never grouped with others.
    """
    groups = [(axis_position(value, column, width), [(value, name)]) for value, name in samples]
    while True:
        joinable = [n for n, (left, right) in enumerate(pairwise(groups)) if may_join(left, right, column)]
        if not joinable:
            return groups
        first = min(joinable, key=lambda n: groups[n + 1][0] - groups[n][0])
        (left, left_samples), (right, right_samples) = groups[first : first + 2]
        joined = left_samples + right_samples
        middle = (left * len(left_samples) + right * len(right_samples)) / len(joined)
        groups[first : first + 2] = [(middle, joined)]


def may_join(left: tuple, right: tuple, column: str) -> bool:
    """Return whether two adjacent groups overlap. On a logarithmic axis, zeros do not join other values."""
    only_left_is_zero = column != "coverage" and left[1][-1][0] == 0 < right[1][0][0]
    needed = sum((DOT if len(samples) == 1 else MARK) / 2 for _, samples in (left, right))
    return right[0] - left[0] < needed and not only_left_is_zero


def title(rows: list[dict]) -> str:
    """Return the title: in how many samples losses were counted, the largest loss, and samples without counters."""
    loss_shares = [row["loss_share"] or 0 for row in rows if row["lost_frames"] is not None]
    without_counters = f"no counters in {len(rows) - len(loss_shares):,} of {count(len(rows), 'sample')}"
    mirror = mirror_loss(rows)
    if not loss_shares:
        return "; ".join([f"Loss unknown: {without_counters}", *mirror])
    lossy = sum(share > 0 for share in loss_shares)
    samples = count(len(loss_shares), "sample")
    partly_counted = any(row["lost_frames"] is not None and row["loss_stages_known"] < STAGES for row in rows)
    at_least = "at least " if partly_counted or any(map(mirror_loss_uncounted, rows)) else ""
    text = f"No loss {'counted' if at_least or mirror else 'seen'} in {samples}"
    if lossy:
        text = f"Loss counted in {lossy:,} of {samples}, the largest {at_least}{percent(max(loss_shares))} of frames"
    return "; ".join([text, *([] if len(loss_shares) == len(rows) else [without_counters]), *mirror])


def clock_resolutions(rows: list[dict]) -> str:
    """Return the clock resolutions as text, unknown ones first, then fine to coarse, with numbers of samples."""
    samples_by_resolution = {}
    for row in sorted(rows, key=lambda row: (clock_resolution(row) or 0, too_few_timestamps(row))):
        value = clock_resolution(row)
        name = "unknown" if value is None else nanoseconds(value)
        if too_few_timestamps(row):
            name = f"not determined from fewer than {MIN_TIMESTAMPS} distinct timestamps"
        samples_by_resolution[name] = samples_by_resolution.get(name, 0) + 1
    parts = [f"{name} ({count(number, 'sample')})" for name, number in samples_by_resolution.items()]
    return f"Clock resolution: {', '.join(parts)}."


def incomplete_files(rows: list[dict]) -> tuple[str, ...]:
    """Return a note that names the samples whose file ends within a frame or is damaged."""
    names = [row["sample"] for row in rows if INCOMPLETE_FILES.applies_to(row)]
    if not names:
        return ()
    shown = listed([*names[:MAX_NAMED], *([f"{len(names) - MAX_NAMED:,} more"] if len(names) > MAX_NAMED else [])])
    return (f"{INCOMPLETE_FILES.explanation}: {count(len(names), 'file')} ({shown}).",)


def unread_bytes(rows: list[dict]) -> tuple[str, ...]:
    """Return a note on bytes of files that were not read because of an error."""
    with_unread = [row for row in rows if row["file_unread_bytes"]]
    if not with_unread:
        return ()
    size = scaled(sum(row["file_unread_bytes"] for row in with_unread), "B")
    return (f"Not read after an error: {size} of {count(len(with_unread), 'file')}; no panel includes their frames.",)


def panel(values, order, column_and_heading, width, *, first) -> alt.LayerChart:
    """Return the marks of one panel, with one row per site."""
    column, heading = column_and_heading
    wide, narrow = TICKS["coverage" if column == "coverage" else "shares"]
    tick_values = wide if width >= NARROW else narrow
    ticks = {round(axis_position(value / 100, column, width), 2): f"{value:g}" for value in tick_values}
    axis = alt.Axis(
        values=list(ticks), tickCount=len(ticks), labelExpr=tick_labels(ticks), domain=False, labelOverlap=False
    )
    base = alt.Chart(Rows(values=values)).encode(
        x=alt.X("x:Q", title=list(heading), scale=alt.Scale(domain=[0, width], nice=False), axis=axis),
        y=alt.Y(
            "label:N",
            scale=alt.Scale(domain=order),
            title=None,
            axis=alt.Axis(labels=first, ticks=False, domain=False, grid=True, labelPadding=9),
        ),
        tooltip=[
            *(alt.Tooltip("site:N"), alt.Tooltip("text:N", title=" ".join(heading).removesuffix(" (%)"))),
            *(alt.Tooltip("samples:Q", format=","), alt.Tooltip("named:N", title="names")),
        ],
    )
    dots = base.transform_filter("datum.samples == 1").mark_circle(size=34, color=theme.BLUE, opacity=1)
    several = base.transform_filter("datum.samples > 1")
    circles = several.mark_point(size=110, fill=theme.LEVELS[0], stroke=theme.BLUE, strokeWidth=1, opacity=1)
    numbers = several.mark_text(fontSize=theme.SMALL).encode(text="number:N")
    chart = dots + circles + numbers
    return chart.properties(width=width, height=alt.Step(theme.row_height(len(order), total=330)))


def tick_labels(ticks: dict[float, str]) -> str:
    """Return a Vega expression for the labels of ticks at these positions."""
    return " : ".join(f"abs(datum.value - {position}) < 0.01 ? '{text}'" for position, text in ticks.items()) + " : ''"


def count_column(rows: list[dict], labels: dict, order: list[str], kind: CountColumn, *, first: bool) -> alt.Chart:
    """Return a column of text with the number of samples of each site that ``kind`` applies to."""
    values = []
    for site, label in labels.items():
        site_rows = [row for row in rows if row["site"] == site]
        number = sum(kind.applies_to(row) for row in site_rows)
        values.append({"label": label, "text": f"{number:,} of {len(site_rows):,}" if number else "", "middle": 0.5})
    axis = alt.Axis(labels=False, ticks=False, domain=False, grid=False, titlePadding=19)
    names = alt.Axis(ticks=False, domain=False, grid=False, labelPadding=9)
    return (
        alt.Chart(Rows(values=values))
        .mark_text(fontSize=theme.SMALL)
        .encode(
            x=alt.X("middle:Q", title=list(kind.heading), axis=axis, scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("label:N", scale=alt.Scale(domain=order), title=None, axis=names if first else None),
            text="text:N",
        )
        .properties(width=COUNT_WIDTH, height=alt.Step(theme.row_height(len(order), total=330)))
    )
