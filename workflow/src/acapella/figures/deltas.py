"""Histograms of the differences between trials, on signed logarithmic bins."""

import math

import altair as alt

from . import theme
from .comparison import environments, letter, pairs, runs
from .compose import Figure
from .source import NoData, Source
from .wording import nanoseconds, percent, short_labels

PER_DECADE = 5
LABEL = 40
PALETTE = (theme.BLUE, theme.VERMILION, theme.GREEN, theme.ORANGE, theme.SKY, theme.PURPLE, theme.BLACK)
NAMED = len(PALETTE)  # as many runs get a colour each; of more, all are grey
MANY = "each run"
LEAST_BINS, LEAST_SHARE = 10, 0.5  # bins of each sign, and %: the axes reach so far at least
FLOOR = 0.4  # of the smallest share that is drawn: bins without packets stand there


def draw(source: Source, measure: str, name: str) -> Figure:
    """A panel an environment, a line a run; shares are logarithmic, so that far outliers show."""
    compared = runs(pairs(source))
    rows = [row for row in runs(source.rows("consistency_deltas")) if row["measure"] == measure]
    if not rows:
        raise NoData("no run has a packet in common with its first trial")
    labels = short_labels(environments(source), LABEL)
    most = max(LEAST_BINS, *(abs(row["bin"]) for row in rows))
    least = min(LEAST_SHARE, 100 * FLOOR * min(row["share"] for row in rows))
    letters = [letter(place) for place in sorted({row["b"] for row in rows})]
    named = len(letters) <= NAMED
    panels = []
    shown = [env for env in labels if any(row["environment"] == env for row in rows)]
    for environment in shown:
        own = [row for row in rows if row["environment"] == environment]
        values = [point for place in sorted({row["b"] for row in own}) for point in steps(own, place, most, least)]
        last = environment == shown[-1]
        panels.append(
            panel(values, labels[environment], letters if named else [], (most, least), name, last, len(shown))
        )
    key = (
        f"Difference: the run's {name} less that of the first trial. Bins are logarithmic, five a decade for each "
        "sign; the middle one holds exactly 0. Shares of the packets in common, on a logarithmic axis.",
        *missing(compared, rows),
    )
    chart = alt.vconcat(*panels, spacing=10).resolve_scale(x="shared", y="shared")
    return Figure(title(compared, measure, name, labels), chart, key)


def title(compared: list[dict], measure: str, name: str, labels: dict) -> str:
    """The mean absolute difference in each environment."""
    told = []
    for environment, label in labels.items():
        column = f"{measure}_delta_mean_ns"
        means = [row[column] for row in compared if row["environment"] == environment and row[column] is not None]
        if means:
            low, high = (nanoseconds_of(value) for value in (min(means), max(means)))
            told.append(f"{low if low == high else f'{low} to {high}'} ({label})")
    return f"Mean absolute difference of {name} between runs: {', '.join(told)}"


def nanoseconds_of(value: float) -> str:
    """A mean in words: below 10 ns with a digit behind the point."""
    return nanoseconds(round(value)) if value >= 9.95 or value == 0 else f"{value:.2g}\N{NO-BREAK SPACE}ns"


def missing(compared: list[dict], rows: list[dict]) -> tuple[str, ...]:
    """Runs that have nothing to draw."""
    drawn = {(row["environment"], row["b"]) for row in rows}
    absent = [
        f"{row['environment']} {letter(row['b'])}" for row in compared if (row["environment"], row["b"]) not in drawn
    ]
    return (f"Without a packet in common: {', '.join(absent)}.",) if absent else ()


def steps(rows: list[dict], place: int, most: int, least: float) -> list[dict]:
    """Every bin of a run from -most to most; those without packets at the floor."""
    filled = {row["bin"]: row for row in rows if row["b"] == place}
    points = []
    for number in range(-most - 1, most + 2):
        row = filled.get(number)
        points.append(
            {
                **{"bin": number, "run": letter(place), "share": 100 * row["share"] if row else least},
                "text": percent(row["share"]) if row else "none",
                "range": between(row) if row else "",
            }
        )
    return points


def ticks(most: int) -> tuple[list[float], str]:
    """Where powers of ten stand, and the expression that writes them: at most about 12, always a 0."""
    decades = list(range((most + PER_DECADE - 1) // PER_DECADE + 1))
    step = max(1, (len(decades) + 4) // 5)
    chosen = [power for power in decades if power % step == 0 and (power or len(decades) == 1)]
    places = [PER_DECADE * power + 0.5 for power in chosen]
    values = [*(-place for place in reversed(places)), 0, *places]
    power = f"round((abs(datum.value) - 0.5) / {PER_DECADE})"
    units = "['ns', 'µs', 'ms', 's', '1000 s', '10⁶ s']"
    size = f"format(pow(10, {power} % 3), 'd') + ' ' + {units}[floor({power} / 3)]"
    return values, f"datum.value == 0 ? '0' : (datum.value < 0 ? '\u2212' : '') + {size}"


def between(row: dict) -> str:
    """What a bin holds, in words."""
    low, high = row["lo_ns"], row["hi_ns"]
    if low is None or high is None:
        return f"{low if high is None else high:,} ns and beyond"
    return f"{low:,} ns" if low == high else f"{low:,} to {high:,} ns"


def powers(least: float) -> list[float]:
    """Powers of ten from a share in % to 100 %."""
    return [10.0**power for power in range(math.ceil(math.log10(least)), 3)]


def panel(values, label, letters, limits, name, last, panels) -> alt.Chart:  # noqa: PLR0913, PLR0917
    """The lines of one environment."""
    most, least = limits
    places, text = ticks(most)
    named = bool(letters)
    domain = letters or [MANY]
    colours = list(PALETTE[: len(letters)]) if named else ["#8A8A8A"]
    field = "run:N" if named else "all:N"
    legend = alt.Legend(title="run", orient="right", symbolType="stroke", symbolSize=200) if named else None
    axis = alt.Axis(values=places, labelExpr=text, labels=last, ticks=last, domain=False, labelOverlap=False)
    return (
        alt.Chart(alt.Data(values=values if named else [{**value, "all": MANY} for value in values]))
        .mark_line(interpolate="step", strokeWidth=1.4, clip=True)
        .encode(
            x=alt.X(
                "bin:Q",
                title=f"difference of {name}" if last else None,
                scale=alt.Scale(domain=[-most - 1, most + 1], nice=False),
                axis=axis,
            ),
            y=alt.Y(
                "share:Q",
                title="packets (%)",
                scale=alt.Scale(type="log", domain=[least, 100], nice=False, clamp=True),
                axis=alt.Axis(labelExpr="format(datum.value, '~r')", values=powers(least), domain=False, minExtent=40),
            ),
            color=alt.Color(field, sort=domain, scale=alt.Scale(domain=domain, range=colours), legend=legend),
            detail="run:N",
            tooltip=[
                *(alt.Tooltip("run:N"), alt.Tooltip("range:N", title="difference")),
                alt.Tooltip("text:N", title="packets in common"),
            ],
        )
        .properties(width=theme.WIDTH - 120, height=max(70, min(190, 420 // panels)))
        .properties(title=alt.TitleParams(label, fontSize=theme.TEXT, offset=2, frame="group", color=theme.INK))
    )
