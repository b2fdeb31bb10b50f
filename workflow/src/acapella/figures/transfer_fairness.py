"""Figure transfer_fairness of the report, described by ABOUT."""

import altair as alt

from acapella.common.wording import count

from . import theme, transfer_scope
from .compose import Figure
from .source import NoData, Source

SUBJECT = "Fairness of parallel streams"
ABOUT = "Fairness of parallel streams: Jain's index of their throughputs (Jain, Chiu and Hawe, DEC-TR-301, 1984)."
TABLE = "transfer_settings"
COLUMNS = ("algorithm", "streams", "ratio", "jain_mean", "jain_low", "jain_high", "runs", "flags")
VARIED = (*transfer_scope.FIXED, "delay_ns", "buffer_bytes")
MAX_SETTINGS = 24  # settings drawn; if there are more, those with the lowest index
STEP = 20  # px per line
DECIMALS = 3
COLORS = (theme.VERMILION, theme.BLUE, theme.GREEN, theme.PURPLE, theme.ORANGE, theme.SKY)


def parallel_rows(rows: list[dict]) -> list[dict]:
    """Return the rows of settings with several streams. Raises NoData if there are none."""
    with_several_streams = [row for row in rows if row["jain_mean"] is not None and (row["streams"] or 0) > 1]
    if not with_several_streams:
        raise NoData("no settings were run with several parallel streams")
    return with_several_streams


SCOPE = transfer_scope.scope_of(parallel_rows)


def draw(source: Source) -> Figure:
    """Draw a line per setting with a mark per algorithm."""
    rows = parallel_rows(source.rows(TABLE))
    lowest: dict[int, float] = {}
    for row in rows:
        lowest[row["setting"]] = min(row["jain_mean"], lowest.get(row["setting"], 1.0))
    chosen = sorted(sorted(lowest, key=lambda setting: (lowest[setting], setting))[:MAX_SETTINGS])
    drawn_rows = [row for row in rows if row["setting"] in chosen]
    key = "1: all streams have the same throughput; 1/n: one of n streams has all; bars: smallest and largest run"
    notes = [f"{key}; hollow: a run has a flag"]
    if len(chosen) < len(lowest):
        notes.append(f"the {len(chosen)} of {count(len(lowest), 'setting')} with the lowest index")
    return Figure(title(rows), chart(drawn_rows, chosen), tuple(notes))


def chart(rows: list[dict], order: list[int]) -> alt.LayerChart:
    """Return the chart. ``order``: the settings from top to bottom."""
    varied = transfer_scope.varying(rows, VARIED) or ["streams"]
    names = transfer_scope.algorithms(rows)
    labels = {row["setting"]: transfer_scope.setting_text(row, varied) for row in rows}
    values = [
        {
            "setting": labels[row["setting"]],
            "algorithm": transfer_scope.name_of(row["algorithm"]),
            "mean": row["jain_mean"],
            "low": row["jain_low"],
            "high": row["jain_high"],
            "flagged": transfer_scope.is_flagged(row),
        }
        for row in rows
    ]
    ordered_labels = [labels[setting] for setting in order]
    axis_x = alt.Axis(format=".1f", values=[n / 5 for n in range(6)])
    x = alt.X("mean:Q", title="Jain's fairness index", scale=alt.Scale(domain=[0, 1]), axis=axis_x)
    y = alt.Y("setting:N", title=None, sort=ordered_labels, axis=alt.Axis(grid=True, ticks=False, labelLimit=330))
    algorithm_names = [transfer_scope.name_of(name) for name in names]
    scale = alt.Scale(domain=algorithm_names, range=[COLORS[n % len(COLORS)] for n in range(len(algorithm_names))])
    offset = alt.YOffset("algorithm:N", scale=alt.Scale(domain=algorithm_names, paddingInner=0, paddingOuter=0.4))
    color = alt.Color("algorithm:N", scale=scale, legend=alt.Legend(title=None, orient="bottom"))
    tips = [alt.Tooltip("setting:N"), alt.Tooltip("algorithm:N"), alt.Tooltip("mean:Q", format=".4f")]
    base = alt.Chart(alt.Data(values=values)).encode(x=x, y=y, yOffset=offset, color=color, tooltip=tips)
    layers = [
        base.mark_rule(strokeWidth=1.4).encode(x=alt.X("low:Q"), x2="high:Q"),
        base.transform_filter("!datum.flagged").mark_circle(size=36, opacity=1),
        base.transform_filter("datum.flagged").mark_point(size=36, fill=theme.WHITE, opacity=1),
    ]
    width = theme.WIDTH - 40 - min(330, theme.text_width(ordered_labels))
    return alt.layer(*layers).properties(width=width, height=max(2, len(ordered_labels)) * STEP)


def title(rows: list[dict]) -> str:
    """Return the title: the lowest index of each algorithm."""
    parts = []
    for name in transfer_scope.algorithms(rows):
        low = min(row["jain_mean"] for row in rows if row["algorithm"] == name)
        parts.append(f"{transfer_scope.name_of(name)} {index_text(low)}")
    return f"Fairness between parallel streams, lowest setting: {', '.join(parts)}"


def index_text(index: float) -> str:
    """Return an index with three decimals; only 1 is written as 1."""
    return "1" if index == 1 else f"{int(index * 10**DECIMALS) / 10**DECIMALS:.{DECIMALS}f}"
