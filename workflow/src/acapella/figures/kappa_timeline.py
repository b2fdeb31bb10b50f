"""Where in time each run was unlike the first trial: kappa over windows."""

import altair as alt

from . import theme
from .comparison import environments, letter, pairs, runs, scope
from .compose import Figure
from .deltas import MANY, NAMED, PALETTE
from .source import NoData, Source
from .wording import nanoseconds, short_labels

SUBJECT = "Kappa over time"
TABLE = "consistency_timeline"
SCOPE = scope
COLUMNS = ("from_ns", "to_ns", "kappa")
LABEL = 40
UNITS = ((10**10, 10**9, "s"), (10**7, 10**6, "ms"), (10**4, 10**3, "µs"), (0, 1, "ns"))


def draw(source: Source) -> Figure:
    """A panel an environment, a line a run; windows without packets are left out."""
    pairs(source)
    rows = [row for row in runs(source.rows(TABLE)) if row["kappa"] is not None]
    if not rows:
        raise NoData("no window of any run holds a packet")
    labels = short_labels(environments(source), LABEL)
    end = max(row["to_ns"] for row in rows)
    size, unit = next((size, unit) for least, size, unit in UNITS if end >= least)
    letters = [letter(place) for place in sorted({row["b"] for row in rows})]
    shown = [name for name in labels if any(row["environment"] == name for row in rows)]
    least = min(row["kappa"] for row in rows)
    panels = []
    for name in shown:
        own = sorted((row for row in rows if row["environment"] == name), key=lambda row: (row["b"], row["from_ns"]))
        values = [cells(row, size) for row in own]
        frame = {"last": name == shown[-1], "panels": len(shown), "unit": unit, "end": end / size, "least": least}
        panels.append(panel(values, labels[name], letters, frame))
    chart = alt.vconcat(*panels, spacing=10).resolve_scale(x="shared", y="shared", color="shared")
    windows = "A window's components are those of its packets; the kappa of a run is not the mean of its windows."
    return Figure(title(rows, labels), chart, (windows,))


def cells(row: dict, size: int) -> dict:
    """What one window puts into the drawing: a step from its start to its end."""
    return {
        **{"x": row["from_ns"] / size, "x2": row["to_ns"] / size, "run": letter(row["b"]), "kappa": row["kappa"]},
        **{name: row[name] for name in ("U", "O", "L", "I")},
        "packets": row["packets_common"],
    }


def title(rows: list[dict], labels: dict) -> str:
    """The window in which the consistency was least."""
    worst = min(rows, key=lambda row: row["kappa"])
    if worst["kappa"] == 1:
        return "Kappa is 1 in every window"
    where = f"{labels[worst['environment']]}, run {letter(worst['b'])}"
    return f"Kappa of a window is least, {worst['kappa']:.4g}, after {nanoseconds(worst['from_ns'])} ({where})"


def panel(values: list[dict], label: str, letters: list[str], frame: dict) -> alt.Chart:
    """The lines of one environment."""
    named = len(letters) <= NAMED
    domain = letters if named else [MANY]
    colours = list(PALETTE[: len(letters)]) if named else ["#8A8A8A"]
    if not named:
        values = [{**value, "all": MANY} for value in values]
    legend = (
        alt.Legend(title="run", orient="right", symbolType="stroke", symbolSize=200, symbolOpacity=1) if named else None
    )
    last = frame["last"]
    axis = alt.Axis(labels=last, ticks=last, domain=False)
    low = frame["least"] - 0.05 * (1 - frame["least"]) if frame["least"] < 1 else 0.99
    y = alt.Y(
        "kappa:Q",
        title="kappa",
        scale=alt.Scale(domain=[max(0, low), 1], nice=False),
        axis=alt.Axis(tickCount=4, domain=False, minExtent=46),
    )
    base = alt.Chart(alt.Data(values=values)).encode(
        x=alt.X(
            "x:Q",
            title=f"time since the first packet ({frame['unit']})" if last else None,
            scale=alt.Scale(domain=[0, frame["end"]], nice=False),
            axis=axis,
        ),
        y=y,
        color=alt.Color(
            "run:N" if named else "all:N", sort=domain, scale=alt.Scale(domain=domain, range=colours), legend=legend
        ),
        tooltip=[
            *(alt.Tooltip("run:N"), alt.Tooltip("kappa:Q", format=".6~r")),
            *(alt.Tooltip(f"{name}:Q", format=".3~g") for name in ("U", "O", "L", "I")),
            alt.Tooltip("packets:Q", title="packets in common", format=","),
        ],
    )
    rules = base.mark_rule(strokeWidth=1.6, clip=True).encode(x2="x2:Q")
    lines = base.mark_line(interpolate="step-after", strokeWidth=0.8, opacity=0.5).encode(detail="run:N")
    return (
        (lines + rules)
        .properties(width=theme.WIDTH - 126, height=max(70, min(190, 420 // frame["panels"])))
        .properties(title=alt.TitleParams(label, fontSize=theme.TEXT, offset=2, frame="group", color=theme.INK))
    )
