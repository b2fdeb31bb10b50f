"""Figure kappa_timeline of the report, described by ABOUT."""

from collections import defaultdict

import altair as alt

from acapella.common.wording import GAP, count, digits, nanoseconds, span

from . import theme
from .comparison import environments, pairs, runs_against_first, scope, trial_labels
from .compose import Figure
from .kappa_components import format_kappa
from .rows import Rows
from .source import NoData, Source

SUBJECT = "Kappa over time"
ABOUT = "Kappa of each run over time, in windows."
TABLE = "consistency_timeline"
SCOPE = scope
COLUMNS = ("from_ns", "to_ns", "kappa")
MAX_LABEL = 26
PANELS_PER_ROW = 4
MAX_RUNS = 40  # runs drawn; if there are more, those with the lowest kappa in a window
HEIGHT, SPACING = 64, 10  # px: height of a panel, and distance between panels
LABEL_GAP = 14  # px: smallest distance between labels of the time axis
UNITS = ((10**10, 10**9, "s"), (10**7, 10**6, "ms"), (10**4, 10**3, "µs"), (0, 1, "ns"))


def draw(source: Source) -> Figure:
    """Draw a small panel per run, all with the same axes. Windows without packets are omitted."""
    pairs(source)
    rows = [row for row in runs_against_first(source.rows(TABLE)) if row["kappa"] is not None]
    if not rows:
        raise NoData("no window of any run contains a packet")
    order, trials = environments(source), trial_labels(source, MAX_LABEL)
    end = max(row["to_ns"] for row in rows)
    size, unit = next((size, unit) for minimum, size, unit in UNITS if end >= minimum)
    lowest = min(row["kappa"] for row in rows)
    rows_by_run = defaultdict(list)
    for row in sorted(rows, key=lambda row: (order.index(row["environment"]), row["b"], row["from_ns"])):
        rows_by_run[row["environment"], row["b"]].append(row)
    lengths = [row["to_ns"] - row["from_ns"] for row in rows]
    lengths_text = span(nanoseconds(min(lengths)), nanoseconds(max(lengths)))
    key = [f"Windows of {lengths_text}", "the components of a window are computed from its packets"]
    key.append("the kappa of a run is not the mean of its windows")
    drawn_runs = list(rows_by_run)
    if len(drawn_runs) > MAX_RUNS:
        worst = sorted(drawn_runs, key=lambda run: min(row["kappa"] for row in rows_by_run[run]))[:MAX_RUNS]
        drawn_runs = [run for run in drawn_runs if run in worst]
        key.append(f"the {MAX_RUNS} runs with the lowest kappa in a window, of {count(len(rows_by_run), 'run')}")
    columns = min(PANELS_PER_ROW, len(drawn_runs))
    frame = {"unit": unit, "end": end / size, "least": lowest, "width": (theme.WIDTH - 66) // columns - SPACING}
    panels = []
    for index, run in enumerate(drawn_runs):
        edges = {"left": index % columns == 0, "below": index + columns >= len(drawn_runs)}
        panels.append(
            panel([window_values(row, size, trials[run]) for row in rows_by_run[run]], trials[run], frame | edges)
        )
    chart = alt.concat(*panels, columns=columns, spacing={"row": 26, "column": SPACING}, bounds="flush")
    return Figure(title(rows, trials, size, unit), chart, ("; ".join(key) + ".",))


def window_values(row: dict, size: int, run: str) -> dict:
    """Return the values of a window for the chart: a step from its start to its end."""
    return {
        **{"x": row["from_ns"] / size, "x2": row["to_ns"] / size, "run": run, "kappa": row["kappa"]},
        **{name: row[name] for name in ("U", "O", "L", "I")},
        "packets": row["packets_common"],
    }


def title(rows: list[dict], trials: dict, size: int, unit: str) -> str:
    """Return the title: the window with the lowest kappa, and how many runs have their lowest kappa at that time.

    ``unit`` and its ``size`` in ns apply to the time axis.
    """
    worst = min(rows, key=lambda row: row["kappa"])
    if worst["kappa"] == 1:
        return "Kappa is 1 in every window"
    run = trials[worst["environment"], worst["b"]]
    equal = sum(format_kappa(row["kappa"]) == format_kappa(worst["kappa"]) for row in rows) - 1  # equal as displayed
    elsewhere = f" and in {count(equal, 'other window')}" if equal else ""
    time_text = f"{digits(worst['from_ns'] / size)}{GAP}{unit}"
    lowest = f"Lowest window kappa: {format_kappa(worst['kappa'])} at {time_text} ({run}){elsewhere}"
    return "; ".join([lowest, *runs_lowest_at(rows, worst, time_text)])


def runs_lowest_at(rows: list[dict], worst: dict, time_text: str) -> list[str]:
    """Return a text with the number of runs whose lowest window overlaps the lowest of all runs; [] if it is only one.

    ``time_text`` is the time of the lowest window, the first one if several are equally low.
    """
    lowest: dict[tuple, float] = {}
    for row in rows:
        run = row["environment"], row["b"]
        lowest[run] = min(row["kappa"], lowest.get(run, 1))
    overlapping = {
        (row["environment"], row["b"])
        for row in rows
        if row["kappa"] == lowest[row["environment"], row["b"]] < 1
        and row["from_ns"] < worst["to_ns"]
        and row["to_ns"] > worst["from_ns"]
    }
    if len(overlapping) < 2:
        return []
    return [f"{len(overlapping):,} of {count(len(lowest), 'run')} have their lowest kappa at {time_text}"]


def label_width(end: float) -> int:
    """Return the width of the widest label of a time axis that ends at ``end``, in px."""
    return theme.text_width([f"{int(end):,}"])


def time_ticks(end: float, width: int) -> list[int]:
    """Return ticks of a time axis of ``width`` px whose labels are at least LABEL_GAP apart.

    Labels are centered at their ticks, except the last one: it ends at its tick if the panel has no space after it, and
    the tick is omitted if the label would then be too near to the one before.
    """
    label, px = label_width(end), width / max(end, 1)
    sizes = (lead * 10**power for power in range(20) for lead in (1, 2, 5))
    step = next(size for size in sizes if size * px >= label + LABEL_GAP)
    ticks = list(range(0, int(end) + 1, step))
    is_flush = (end - ticks[-1]) * px < label / 2
    too_near = step * px < 1.5 * label + LABEL_GAP
    return ticks[:-1] if len(ticks) > 2 and is_flush and too_near else ticks


def panel(values: list[dict], head: str, frame: dict) -> alt.LayerChart:
    """Return the panel of one run. Only panels at the left and at the bottom have labels."""
    low = frame["least"] - 0.05 * (1 - frame["least"]) if frame["least"] < 1 else 0.99
    x = alt.X(
        "x:Q",
        title=f"time since the first packet ({frame['unit']})" if frame["below"] else None,
        scale=alt.Scale(domain=[0, frame["end"]], nice=False),
        axis=alt.Axis(
            labels=frame["below"],
            ticks=frame["below"],
            domain=False,
            values=time_ticks(frame["end"], frame["width"]),
            labelFlush=label_width(frame["end"]) / 2,  # px; keeps labels in the panel
            labelOverlap=False,
        ),
    )
    y = alt.Y(
        "kappa:Q",
        title="kappa" if frame["left"] else None,
        scale=alt.Scale(domain=[max(0, low), 1], nice=False),
        axis=alt.Axis(tickCount=3, labels=frame["left"], ticks=frame["left"], domain=False)
        if not frame["left"]
        else alt.Axis(tickCount=3, domain=False, minExtent=46, labelFlush=True, labelOverlap=False),
    )
    base = alt.Chart(Rows(values=values)).encode(
        x=x,
        y=y,
        tooltip=[
            *(alt.Tooltip("run:N"), alt.Tooltip("kappa:Q", format=".6~r")),
            *(alt.Tooltip(f"{name}:Q", format=".3~g") for name in ("U", "O", "L", "I")),
            alt.Tooltip("packets:Q", title="packets in common", format=","),
        ],
    )
    rules = base.mark_rule(strokeWidth=1.6, color=theme.BLUE, clip=True).encode(x2="x2:Q")
    lines = base.mark_line(interpolate="step-after", strokeWidth=0.8, opacity=0.5, color=theme.BLUE)
    limit = frame["width"] + SPACING - 4
    title = alt.TitleParams(head, fontSize=theme.TEXT, offset=2, frame="group", color=theme.INK, limit=limit)
    return (lines + rules).properties(width=frame["width"], height=HEIGHT, title=title)
