"""Figure kappa_replayer of the report, described by ABOUT."""

import altair as alt

from acapella.common.wording import count, short_labels, span

from . import theme
from .comparison import environments, lost_cpu_text, pairs, runs_against_first, scope
from .compose import Figure
from .kappa_components import format_kappa
from .source import NoData, Source

SUBJECT = "Replayer and path"
ABOUT = (
    "Inconsistency (1 - kappa) of each run as measured, of its replayer alone, and of the path without the replayer."
)
TABLE = "consistency"
SCOPE = scope
COLUMNS = ("kappa", "kappa_replayer", "path_kappa_lo", "path_kappa_hi")
MAX_LABEL = 28
MEASURED, REPLAYER, PATH = "measured", "replayer alone", "path, 95 % interval of each run"
BAR_SHAPE = "M-0.3,-1H0.3V1H-0.3Z"  # shape of the legend for the bars of the path, most of which are narrow
VALUES = {MEASURED: ["kappa"], REPLAYER: ["kappa_replayer"], PATH: ["path_kappa_lo", "path_kappa_hi"]}
MARKS = {MEASURED: (theme.BLACK, "circle"), REPLAYER: (theme.VERMILION, "triangle-up"), PATH: (theme.BLUE, BAR_SHAPE)}
ROW_POSITIONS = {MEASURED: 0.22, REPLAYER: 0.5, PATH: 0.78}  # vertical position in a row, as a share of its height
ROW = 42  # px
FLOOR = 0.5  # 0 is drawn at this fraction of the smallest value above 0
MIN_WIDTH = 1.012  # minimum ratio of the ends of a drawn interval, so that narrow ones are visible
UNKNOWN = "departures not measured"
MEAN_LIMITS = "mean limits"
RECEIVER_NOTE = (
    "The intervals do not include errors of the receiver's timestamps other than the rounding of its clock "
    "(consistency.arrival_error_ns)."
)
MAX_NAMED = 3  # environments in the title


def draw(source: Source) -> Figure:
    """Draw a row per environment with three lines of marks, one mark per run."""
    rows = [row for row in runs_against_first(pairs(source)) if row["kappa"] is not None]
    if all(row["kappa_replayer"] is None and row["path_kappa_lo"] is None for row in rows):
        raise NoData("the departures of the replays were not measured")
    labels = short_labels(
        [name for name in environments(source) if any(r["environment"] == name for r in rows)], MAX_LABEL
    )
    zero_value = least_value(rows)
    values = [point for row in rows for point in points(row, labels, zero_value)]
    texts = [caption for name, label in labels.items() for caption in captions(rows, name, label)]
    key = (
        "Distance from perfect consistency, on a logarithmic axis: further left is more consistent. Replayer alone: of "
        "the departures, without any network. Path: what perfect replays would have had; it includes switches and the "
        "recorder (docs/kappa_path.md). Numbers at the right: mean kappa of the runs; of the path, means of the lower "
        "and of the upper limits. These mean limits are no interval of the mean: all runs share the first trial.",
        *((RECEIVER_NOTE,) if any(lacks_arrival_error(row) for row in rows) else ()),
        *(("Hollow: the sender of either trial lost the CPU.",) if any(value["lost"] for value in values) else ()),
        *((f"A value of 0 is drawn at {zero_value:.1e}.",) if any(value["zero"] for value in values) else ()),
    )
    return Figure(title(source, rows, labels), chart(values, texts, list(labels.values()), zero_value), key)


def inconsistency(kappa: float) -> float:
    """Return 1 - kappa."""
    return 1 - kappa


def lacks_arrival_error(row: dict) -> bool:
    """Return whether the interval of a run's path was computed without the error of arrival timestamps."""
    return row["path_kappa_lo"] is not None and row["arrival_error_ns"] is None


def least_value(rows: list[dict]) -> float:
    """Return the value at which 0 is drawn, below all others."""
    known = [inconsistency(row[name]) for row in rows for name in COLUMNS if row[name] is not None]
    return FLOOR * min((value for value in known if value > 0), default=1e-6)


def points(row: dict, labels: dict[str, str], zero_value: float) -> list[dict]:
    """Return the marks of a run; none for unknown values."""
    ends = {
        MEASURED: (row["kappa"], row["kappa"]),
        REPLAYER: (row["kappa_replayer"], row["kappa_replayer"]),
        PATH: (row["path_kappa_lo"], row["path_kappa_hi"]),
    }
    run_marks = []
    for kind, (low, high) in ends.items():
        if low is None or high is None:
            continue
        smallest, largest = inconsistency(high), inconsistency(low)
        near = max(smallest, zero_value)
        run_marks.append(
            {
                **{"label": labels[row["environment"]], "kind": kind, "run": row["trial_b"]},
                **{"place": ROW_POSITIONS[kind], "from": near, "to": max(largest, near * MIN_WIDTH)},
                "zero": smallest <= 0,
                "lost": bool(row["cpu_lost_a"] or row["cpu_lost_b"]),
                "text": span(format_kappa(low), format_kappa(high)),
            }
        )
    return run_marks


def captions(rows: list[dict], environment: str, label: str) -> list[dict]:
    """Return the mean of each kind of mark of an environment as text."""
    environment_rows = [row for row in rows if row["environment"] == environment]
    texts = []
    for kind, names in VALUES.items():
        means = [mean([row[name] for row in environment_rows]) for name in names]
        if None not in means:
            text = span(*(format_kappa(end) for end in (means[0], means[-1])))
            text = f"{MEAN_LIMITS} {text}" if kind == PATH else text
            texts.append({"label": label, "place": ROW_POSITIONS[kind], "text": text})
    if len(texts) == 1:
        texts.append({"label": label, "place": ROW_POSITIONS[REPLAYER], "text": UNKNOWN})
    return texts


def mean(values: list[float | None]) -> float | None:
    """Return the mean of the known values; None if there are none."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def title(source: Source, rows: list[dict], labels: dict[str, str]) -> str:
    """Return the title: the means, a note on limits without the receiver's errors, and trials that lost the CPU."""
    path_rows = [row for row in rows if row["path_kappa_lo"] is not None]
    parts = [means_text(rows, labels)]
    if any(lacks_arrival_error(row) for row in path_rows):
        parts.append("limits lack the receiver's errors")
    if lost := lost_cpu_text(source, {row["environment"] for row in path_rows}):
        parts.append(lost)
    return "; ".join(parts)


def means_text(rows: list[dict], labels: dict[str, str]) -> str:
    """Return mean kappa measured and of the replayer, and mean limits of the path; only the number of environments if
    there are many.
    """
    text_by_label = {}
    for name, label in labels.items():
        environment_rows = [row for row in rows if row["environment"] == name]
        ends = [mean([row[end] for row in environment_rows]) for end in ("path_kappa_lo", "path_kappa_hi")]
        if None not in ends:
            environment_rows = [row for row in environment_rows if row["path_kappa_lo"] is not None]
            measured, replayer = (format_kappa(mean([row[name] for row in environment_rows])) for name in COLUMNS[:2])
            text_by_label[label] = (
                f"{measured} measured, {replayer} replayer, path with {MEAN_LIMITS} {span(*map(format_kappa, ends))}"
            )
    if not text_by_label:
        return "Kappa of the path is unknown: departures were not measured"
    if len(text_by_label) > MAX_NAMED:
        return f"Kappa of the replayer and of the path in {count(len(text_by_label), 'environment')}"
    return "Mean kappa: " + "; ".join(f"{text} ({label})" for label, text in text_by_label.items())


def chart(values: list[dict], texts: list[dict], names: list[str], zero_value: float) -> alt.LayerChart:
    """Return the marks with the means at the right."""
    caption_width = theme.text_width(text["text"] for text in texts) + 10
    width = theme.WIDTH - theme.text_width(names) - caption_width - 30
    height = ROW * len(names)
    for value in (*values, *texts):
        value["y"] = ROW * (names.index(value["label"]) + value["place"])
    y = alt.Y("y:Q", scale=alt.Scale(domain=[0, height], range=[0, height], nice=False), axis=None)
    layers = [
        rules(len(names), width).encode(y=y),
        *marks(values, [zero_value, 1.1 * max(value["to"] for value in values)], y, width),
        environment_names(names).encode(y=y),
        alt.Chart(alt.Data(values=texts))
        .mark_text(align="left", fontSize=theme.SMALL)
        .encode(y=y, x=alt.value(width + 8), text="text:N"),
    ]
    return alt.layer(*layers).properties(width=width + caption_width, height=height)


def rules(rows: int, width: int) -> alt.Chart:
    """Return lines between the environments."""
    lines = [{"y": ROW * index} for index in range(rows + 1)]
    return alt.Chart(alt.Data(values=lines)).mark_rule(color=theme.GRID).encode(x=alt.value(0), x2=alt.value(width))


def environment_names(names: list[str]) -> alt.Chart:
    """Return the names of the environments at the left."""
    heads = [{"label": name, "y": ROW * (index + 0.5)} for index, name in enumerate(names)]
    return alt.Chart(alt.Data(values=heads)).mark_text(align="right").encode(x=alt.value(-8), text="label:N")


def marks(values: list[dict], domain: list[float], y: alt.Y, width: int) -> list[alt.Chart]:
    """Return bars for the intervals of the path, and points for the other values; hollow if the CPU was lost."""
    kinds = list(MARKS)
    colors, shapes = (list(part) for part in zip(*MARKS.values(), strict=True))
    legend = alt.Legend(title=None, orient="bottom", columns=len(kinds), offset=4)
    scale = alt.Scale(type="log", domain=domain, range=[0, width], nice=False)
    axis = alt.Axis(format="~g", tickCount=6, domain=False, labelOverlap=True)
    base = alt.Chart(alt.Data(values=values)).encode(
        x=alt.X("from:Q", title="1 - kappa", scale=scale, axis=axis),
        y=y,
        color=alt.Color("kind:N", sort=kinds, scale=alt.Scale(domain=kinds, range=colors), legend=legend),
        tooltip=[
            *(alt.Tooltip("label:N"), alt.Tooltip("run:N"), alt.Tooltip("kind:N")),
            alt.Tooltip("text:N", title="kappa"),
        ],
    )
    bars = base.transform_filter(f"datum.kind == '{PATH}'").mark_bar(height=7).encode(x2="to:Q")
    shape = alt.Shape("kind:N", sort=kinds, scale=alt.Scale(domain=kinds, range=shapes), legend=legend)
    points_ = base.transform_filter(f"datum.kind != '{PATH}'").encode(shape=shape)
    hollow = points_.transform_filter("datum.lost").mark_point(size=34, strokeWidth=1.3, opacity=1)
    filled = points_.transform_filter("!datum.lost").mark_point(size=34, filled=True, opacity=1)
    return [bars, hollow, filled]
