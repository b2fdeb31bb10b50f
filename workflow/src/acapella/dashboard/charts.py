"""Draws charts of a dashboard: values of campaigns over time, as SVG inside the page. Equal values yield equal
bytes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import escape

from acapella.common.wording import count

WIDTH, HEIGHT = 400, 150  # px of the drawing; the page scales it
LEFT, RIGHT, TOP, BOTTOM = 66, 8, 10, 26  # margins of the plot
SMALL_WIDTH, SMALL_HEIGHT = 132, 22
MAX_MARKED = 120  # maximum number of points with marks and tooltips; in longer lines, only sparse points have them
MAX_X_TICKS = 4
SMALLEST = 1e-15  # a smaller maximum counts as 0: the power of ten below the smallest doubles would be 0
DAY_S = 86_400
SPARSE_CLASS, SPARSE_NOTE = ' class="sparse"', " (little time captured)"
STEPS_S = (1, 5, 15, 60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600, DAY_S, 2 * DAY_S, 7 * DAY_S, 14 * DAY_S)
STEPS_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120)


@dataclass(frozen=True)
class Point:
    """The value of a campaign; None if it is unknown.

    ``start_ns``: since 1970, UTC; ``sparse``: the campaign captured little time.
    """

    start_ns: int
    value: float | None
    label: str
    sparse: bool = False


@dataclass(frozen=True)
class Axis:
    """The vertical axis: its name, the text of a value, and its upper end, if fixed."""

    name: str
    text: Callable[[float], str]
    maximum: float | None = None


Span = tuple[int, int]  # first and last time of an axis, in ns since 1970


def chart(points: Sequence[Point], axis: Axis, span: Span, subject: str = "") -> str:
    """Return a chart as SVG; a sentence if no campaign has a value. ``points`` are in chronological order."""
    known = [point for point in points if point.value is not None]
    if not known:
        return f'<p class="note">{escape(axis.name)}: no campaign has a value.</p>'
    label = escape(description(known, axis, subject))
    ticks = value_ticks(axis.maximum or max(point.value for point in known))
    placed = [
        (x_of(point.start_ns, span), None if point.value is None else y_of(point.value, ticks[-1])) for point in points
    ]
    parts = [
        f'<svg class="trend" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">',
        *(grid_line(y_of(tick, ticks[-1]), axis.text(tick)) for tick in ticks),
        *(time_tick(x_of(stamp, span), text) for stamp, text in time_ticks(*span)),
        f'<path class="line" d="{path(placed)}"/>',
        *marks(points, placed, axis, only_sparse=len(known) > MAX_MARKED),
        "</svg>",
    ]
    return "".join(parts)


def sparkline(points: Sequence[Point], axis: Axis, span: Span) -> str:
    """Return a small chart without axes as SVG; "" if no campaign has a value."""
    known = [point for point in points if point.value is not None]
    if not known:
        return ""
    top = axis.maximum or max(point.value for point in known) or 1.0
    first, last = span
    scale = (SMALL_WIDTH - 4) / ((last - first) or 1)
    placed = [
        (
            2 + (point.start_ns - first) * scale if last > first else SMALL_WIDTH / 2,
            None if point.value is None else SMALL_HEIGHT - 2 - (SMALL_HEIGHT - 4) * min(point.value / top, 1.0),
        )
        for point in points
    ]
    label = escape(description(known, axis, ""))
    return (
        f'<svg class="spark" viewBox="0 0 {SMALL_WIDTH} {SMALL_HEIGHT}" role="img" aria-label="{label}">'
        f'<path class="line" d="{path(placed)}"/></svg>'
    )


def description(known: Sequence[Point], axis: Axis, subject: str) -> str:
    """Return the text alternative of a chart: first, last, smallest and largest value."""
    values = [point.value for point in known]
    words = [f"{axis.name}{f' of {subject}' if subject else ''}, {count(len(known), 'campaign')}"]
    words += [f"first {axis.text(values[0])}", f"last {axis.text(values[-1])}"]
    words += [f"smallest {axis.text(min(values))}", f"largest {axis.text(max(values))}"]
    return ", ".join(words)


def x_of(start_ns: int, span: Span) -> float:
    """Return the horizontal position of a time."""
    first, last = span
    share = (start_ns - first) / (last - first) if last > first else 0.5
    return LEFT + 4 + share * (WIDTH - LEFT - RIGHT - 8)


def y_of(value: float, top: float) -> float:
    """Return the vertical position of a value. Values outside the axis are drawn at its ends."""
    return HEIGHT - BOTTOM - min(max(value / top, 0.0), 1.0) * (HEIGHT - TOP - BOTTOM)


def path(placed: Sequence[tuple[float, float | None]]) -> str:
    """Return the path through points, interrupted where a value is missing. A single point becomes a dot."""
    words, drawing = [], False
    for x, y in placed:
        if y is not None:
            words.append(f"{'L' if drawing else 'M'}{x:.1f} {y:.1f}{'' if drawing else 'h0'}")
        drawing = y is not None
    return "".join(words)


def marks(
    points: Sequence[Point], placed: Sequence[tuple[float, float | None]], axis: Axis, *, only_sparse: bool
) -> list[str]:
    """Return a mark with a tooltip for each known value, or only for the sparse ones, whose marks are hollow."""
    parts = []
    for point, (x, y) in zip(points, placed, strict=True):
        if y is not None and (point.sparse or not only_sparse):
            kind, note = (SPARSE_CLASS, SPARSE_NOTE) if point.sparse else ("", "")
            title = escape(f"{point.label}: {axis.text(point.value)}{note}")
            parts.append(f'<circle{kind} cx="{x:.1f}" cy="{y:.1f}" r="2.5"><title>{title}</title></circle>')
    return parts


def grid_line(y: float, text: str) -> str:
    """Return a grid line with its label."""
    line = f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
    return f'{line}<text x="{LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{escape(text)}</text>'


def time_tick(x: float, text: str) -> str:
    """Return a tick of the time axis with its label."""
    y = HEIGHT - BOTTOM
    anchor = "end" if x > WIDTH - 40 else "middle"
    return f'<path class="tick" d="M{x:.1f} {y}v4"/><text x="{x:.1f}" y="{y + 17}" text-anchor="{anchor}">{text}</text>'


def value_ticks(maximum: float) -> list[float]:
    """Return the ticks of a value axis: 0 and three or four multiples of 1, 2, 2.5 or 5 times a power of ten."""
    if maximum < SMALLEST:
        return [0.0, 1.0]
    power = 10.0 ** (math.floor(math.log10(maximum)) - 1)
    step = next(lead * power for lead in (2.5, 5, 10, 20, 25, 50, 100) if lead * power * 4 >= maximum * 0.999999)
    return [step * number for number in range(math.ceil(maximum / step - 1e-6) + 1)]


def time_ticks(first_ns: int, last_ns: int) -> list[tuple[int, str]]:
    """Return ticks between two times, as (ns, label), at multiples of a step from a second to ten years.

    There are at most MAX_X_TICKS, or twice as many if they are years.
    """
    span_s = (last_ns - first_ns) / 1e9
    step_s = next((step for step in STEPS_S if span_s / step < MAX_X_TICKS), None)
    if first_ns >= last_ns:
        return [(first_ns, stamp_text(first_ns, "%Y-%m-%d"))]
    if step_s is None:
        return month_ticks(first_ns, last_ns)
    step_ns = step_s * 10**9
    stamps = range(-(-first_ns // step_ns) * step_ns, last_ns + 1, step_ns)
    form = "%Y-%m-%d" if step_s >= DAY_S else "%H:%M" if step_s >= 60 else "%H:%M:%S"
    ticks = [(stamp, stamp_text(stamp, form)) for stamp in stamps]
    if step_s < DAY_S and ticks:
        ticks[0] = ticks[0][0], stamp_text(ticks[0][0], f"%m-%d {form}")
    return ticks


def month_ticks(first_ns: int, last_ns: int) -> list[tuple[int, str]]:
    """Return ticks at the beginnings of months or years."""
    first, last = (datetime.fromtimestamp(stamp // 10**9, UTC) for stamp in (first_ns, last_ns))
    months = 12 * (last.year - first.year) + last.month - first.month
    step = next((step for step in STEPS_MONTHS if months / step < max_ticks(step)), STEPS_MONTHS[-1])
    ticks = []
    number = -(-(12 * first.year + first.month - 1) // step) * step
    while (moment := datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC)) <= last:
        if moment >= first:
            ticks.append((int(moment.timestamp()) * 10**9, f"{moment:%Y}" if step >= 12 else f"{moment:%Y-%m}"))
        number += step
    return ticks


def max_ticks(step_months: int) -> int:
    """Return the maximum number of ticks; labels of years are short."""
    return 2 * MAX_X_TICKS if step_months >= 12 else MAX_X_TICKS


def stamp_text(stamp_ns: int, form: str) -> str:
    """Return a time in UTC as text."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=stamp_ns // 10**9)).strftime(form)
