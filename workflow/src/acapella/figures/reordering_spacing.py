"""Figure reordering_spacing of the report, described by ABOUT."""

import math

import altair as alt

from acapella.common.wording import count, listed, nanoseconds, percent, short_labels, span

from . import theme
from .comparison import environments, runs_against_first, scope, trial_labels
from .compose import Figure, text_figure
from .deltas import MAX_NAMED_RUNS, PALETTE, UNNAMED_RUN, range_text, share_ticks
from .rows import Rows
from .source import NoData, Source

SUBJECT = "Reordering by packet spacing"
ABOUT = "Probability that two packets arrive in the opposite order, by the time between them in the first trial."
TABLE = "consistency_spacing"
SCOPE = scope
COLUMNS = ("environment", "b", "lo_ns", "hi_ns", "pairs", "reversed_pairs", "reversed_share")
BINS_PER_DECADE = 5
MAX_LABEL = 40
MAX_TRIAL_LABEL = 24  # characters of a trial's name in a legend
MIN_PAIRS = 100  # bins with fewer pairs are drawn as hollow points
MAX_NAMED = 4  # environments named in a sentence; if there are more, it states their number
PANELS_PER_ROW, LABEL_WIDTH = 3, 70  # panels per row if there are more than MAX_NAMED; px for the labels of each
SAMPLED_PAIR = (
    "Sampled pair: two packets that are in both trials, 1, 4, 16, ... or 4096 packets apart in the first trial"
)
FLOOR = 0.3  # bins without a reversed pair are drawn at this fraction of the smallest drawn share, labeled 0


def draw(source: Source) -> Figure:
    """Draw a panel for each environment with reversed pairs, with one line per run."""
    rows = runs_against_first(source.rows(TABLE))
    if not rows:
        raise NoData("no run has two packets in common with its first trial")
    sums = {name: pair_totals([row for row in rows if row["environment"] == name]) for name in environments(source)}
    sums = {name: totals for name, totals in sums.items() if totals[0]}
    if not any(reversed_pairs for _, reversed_pairs in sums.values()):
        pairs = sum(pairs for pairs, _ in sums.values())
        return text_figure(
            "No sampled pair of packets arrived in the opposite order",
            f"{none_reversed_text(pairs)} They are {spacings_text(rows)}. {SAMPLED_PAIR}.",
        )
    labels = short_labels(sums, MAX_LABEL)
    drawn_environments = [name for name, (_, reversed_pairs) in sums.items() if reversed_pairs]
    min_share = 100 * FLOOR * min(row["reversed_share"] for row in rows if row["reversed_pairs"])
    trials = trial_labels(source, MAX_TRIAL_LABEL)
    drawn_rows = [row for row in rows if row["environment"] in drawn_environments]
    columns = 1 if len(drawn_environments) <= MAX_NAMED else PANELS_PER_ROW
    limits = axis_limits(drawn_rows, min_share, columns)
    names = {name: run_names(drawn_rows, name, trials) for name in drawn_environments}
    with_legend = columns == 1 and max(map(len, names.values())) <= MAX_NAMED_RUNS  # small panels have no space for one
    label_width = theme.text_width([text for run_labels in names.values() for text in run_labels]) if with_legend else 0
    size = (
        (theme.WIDTH - 50) // columns - LABEL_WIDTH - label_width,
        90 if columns > 1 else max(70, min(170, 400 // len(drawn_environments))),
    )
    panels = [
        panel(
            [point(row, trials[name, row["b"]], limits) for row in drawn_rows if row["environment"] == name],
            labels[name],
            names[name] if with_legend else [],
            limits,
        ).properties(width=size[0], height=size[1])
        for name in drawn_environments
    ]
    chart = alt.concat(*panels, columns=columns, spacing=14).resolve_scale(x="shared", y="shared", color="independent")
    return Figure(title(drawn_rows, trials), chart, notes_of(drawn_rows, sums, labels, gray=not with_legend))


def run_names(rows: list[dict], environment: str, trials: dict[tuple[str, int], str]) -> list[str]:
    """Return the names of an environment's runs, in the order of the config."""
    return [trials[environment, b] for b in sorted({row["b"] for row in rows if row["environment"] == environment})]


def axis_limits(rows: list[dict], min_share: float, columns: int) -> dict:
    """Return the ends of the axes.

    ``low`` and ``high`` are bins, ``first`` is the lowest bin above 0 with pairs, ``zero`` is the position of equal
    times, ``min_share`` and ``max_share`` are shares in %.
    """
    bins = [row["bin"] for row in rows if row["bin"]] or [1]
    distance = 2 + columns * (max(bins) - min(bins)) // 13  # space for the label 0 to the left of the next label
    zero = min(bins) - distance if any(row["bin"] == 0 for row in rows) else None
    max_share = max(100 * row["reversed_share"] for row in rows)
    return {
        **{"low": min(bins) - 1 if zero is None else zero - 1, "high": max(bins) + 1, "zero": zero},
        **{"min_share": min_share, "max_share": 10 ** math.ceil(math.log10(max_share)), "first": min(bins)},
    }


def pair_totals(rows: list[dict]) -> tuple[int, int]:
    """Return the numbers of pairs and of reversed pairs."""
    return sum(row["pairs"] for row in rows), sum(row["reversed_pairs"] for row in rows)


def none_reversed_text(pairs: int) -> str:
    """Return the sentence for a campaign in which none of the sampled pairs is reversed."""
    return f"None of {count(pairs, 'sampled pair')} of packets is reversed."


def spacings_text(rows: list[dict]) -> str:
    """Return the spacings of all sampled pairs: ``1 µs to 6.31 ms apart in the first trial``."""
    sampled = [row for row in rows if row["pairs"]]
    low, last = min(row["lo_ns"] for row in sampled), max(sampled, key=lambda row: row["bin"])
    if last["hi_ns"] is None:
        return f"{nanoseconds(low)} or more apart in the first trial"
    return f"{span(nanoseconds(low), nanoseconds(last['hi_ns'] + 1))} apart in the first trial"


def title(drawn: list[dict], trials: dict[tuple[str, int], str]) -> str:
    """Return the title: the highest point of the chart, with its pairs, its run and its spacing.

    A mean over spacings would depend on how many pairs of each spacing are sampled. A highest point with few pairs is
    often due to chance: it is used only if no spacing with reversed pairs has at least MIN_PAIRS pairs.
    """
    well_sampled = [row for row in drawn if row["pairs"] >= MIN_PAIRS and row["reversed_pairs"]]
    highest = max(well_sampled or drawn, key=lambda row: (row["reversed_share"], row["pairs"]))
    has_small_bins = any(row["pairs"] < MIN_PAIRS for row in drawn)
    bound = f" with at least {MIN_PAIRS} pairs" if well_sampled and has_small_bins else ""
    counts = f"{highest['reversed_pairs']:,} of {count(highest['pairs'], 'sampled pair')}"
    run = f"run {trials[highest['environment'], highest['b']]}"
    details = f"{counts}, {spacing_text(highest)}, {run}"
    return f"Largest share of reversed pairs at one spacing{bound}: {percent(highest['reversed_share'])} ({details})"


def spacing_text(row: dict) -> str:
    """Return the spacings of a bin as text: ``1 µs to 1.58 µs apart``."""
    if not row["bin"]:
        return "at equal times"
    if row["hi_ns"] is None:
        return f"{nanoseconds(row['lo_ns'])} or more apart"
    return f"{nanoseconds(row['lo_ns'])} to {nanoseconds(row['hi_ns'] + 1)} apart"


def notes_of(
    drawn: list[dict], sums: dict[str, tuple[int, int]], labels: dict[str, str], *, gray: bool
) -> tuple[str, ...]:
    """Return notes: what a sampled pair is, the largest spacing of reversed pairs, and environments without any."""
    farthest = max((row for row in drawn if row["reversed_pairs"]), key=lambda row: row["bin"])
    bound = "the largest spacing of reversed pairs is unknown: some are in the last bin, which has no upper end"
    if farthest["hi_ns"] is not None:
        limit = nanoseconds(round_up(farthest["hi_ns"] + 1))
        bound = f"no sampled pair that is {limit} or more apart is reversed"
    notes = [
        f"{SAMPLED_PAIR}; spacing: the time between them there, in five bins per decade; reversed: they arrive in the "
        "opposite order",
        bound,
    ]
    if gray:
        notes.append("one gray line per run")
    if any(row["pairs"] < MIN_PAIRS for row in drawn):
        notes.append(f"hollow: fewer than {MIN_PAIRS} pairs")
    without_reversed = [labels[name] for name, (_, reversed_pairs) in sums.items() if not reversed_pairs]
    if without_reversed:
        environments_ = (
            listed(without_reversed) if len(without_reversed) <= MAX_NAMED else f"{len(without_reversed)} environments"
        )
        notes.append(f"no sampled pair is reversed in {environments_}")
    return ("; ".join(notes) + ".",)


def round_up(value: int) -> int:
    """Return the smallest number with three significant digits that is not below a value."""
    step = 10 ** max(0, len(str(value)) - 3)
    return -(-value // step) * step


def point(row: dict, run: str, limits: dict) -> dict:
    """Return the values of a row for the chart."""
    return {
        **{"bin": row["bin"], "run": run, "pairs": row["pairs"], "reversed": row["reversed_pairs"]},
        "place": row["bin"] or limits["zero"],
        "share": 100 * row["reversed_share"] or limits["min_share"],
        "text": percent(row["reversed_share"]) if row["reversed_pairs"] else "none",
        "range": range_text(row),
        "few": row["pairs"] < MIN_PAIRS,
        "all": UNNAMED_RUN,
    }


def ticks(limits: dict, max_ticks: int) -> tuple[list[float], str]:
    """Return the ticks at equal times and at most ``max_ticks`` powers of ten, and the expression of their labels."""
    positions = [BINS_PER_DECADE * power + 0.5 for power in range(12)]
    positions = [position for position in positions if limits["first"] - 1 <= position <= limits["high"]]
    values = positions[:: max(1, -(-len(positions) // max_ticks))]
    power = f"round((datum.value - 0.5) / {BINS_PER_DECADE})"
    units = "['ns', 'µs', 'ms', 's']"
    text = f"format(pow(10, {power} % 3), 'd') + ' ' + {units}[floor({power} / 3)]"
    if limits["zero"] is None:
        return values, text
    return [limits["zero"], *values], f"datum.value == {limits['zero']} ? '0' : {text}"


def panel(values: list[dict], label: str, names: list[str], limits: dict) -> alt.LayerChart:
    """Return the points of one environment, one line per run. No line connects equal times with the other points."""
    positions, text = ticks(limits, 4)
    with_legend, min_share = bool(names), limits["min_share"]
    domain = names or [UNNAMED_RUN]
    colors = list(PALETTE[: len(names)]) if with_legend else ["#8A8A8A"]
    legend = alt.Legend(title="run", orient="right", symbolType="stroke", symbolSize=200) if with_legend else None
    field, scale = "run:N" if with_legend else "all:N", alt.Scale(domain=domain, range=colors)
    color = alt.Color(field, sort=domain, scale=scale, legend=legend)
    zero = f"datum.value < {1.01 * min_share} ? '0' : format(datum.value, '~r')"
    heights = [min_share, *(power for power in share_ticks(min_share) if 2 * min_share < power <= limits["max_share"])]
    base = alt.Chart(Rows(values=values)).encode(
        x=alt.X(
            "place:Q",
            title="spacing in the first trial",
            scale=alt.Scale(domain=[limits["low"], limits["high"]], nice=False),
            axis=alt.Axis(values=positions, labelExpr=text, domain=False, labelOverlap=False),
        ),
        y=alt.Y(
            "share:Q",
            title="reversed pairs (%)",
            scale=alt.Scale(type="log", domain=[min_share, limits["max_share"]], nice=False, clamp=True),
            axis=alt.Axis(labelExpr=zero, values=heights, domain=False, minExtent=40, labelOverlap=False),
        ),
        color=color,
        detail="run:N",
        tooltip=[
            *(alt.Tooltip("run:N"), alt.Tooltip("range:N", title="spacing"), alt.Tooltip("text:N", title="reversed")),
            *(alt.Tooltip("reversed:Q", title="reversed pairs", format=","), alt.Tooltip("pairs:Q", format=",")),
        ],
    )
    lines = base.transform_filter("datum.bin > 0").mark_line(strokeWidth=1.2)
    well_sampled = base.transform_filter("!datum.few").mark_point(size=18, filled=True, opacity=1)
    hollow = base.transform_filter("datum.few").mark_point(size=18, fill="white", strokeWidth=1.2, opacity=1)
    heading = alt.TitleParams(label, fontSize=theme.TEXT, offset=4, frame="group", color=theme.INK)
    return (lines + well_sampled + hollow).properties(title=heading)
