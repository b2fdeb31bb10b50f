"""Figure infrastructure_utilization of the report, described by ABOUT."""

import altair as alt

from acapella.common.wording import count, percent

from . import infrastructure_scope, theme
from .compose import Figure
from .rows import Rows
from .source import NoData, Source

SUBJECT = "Utilization of switch ports"
ABOUT = "Distribution of the utilization of switch ports (Patchwork, section 5)."
TABLE = "infrastructure_port_use"
COLUMNS = ("site", "port", "utilization_mean", "utilization_max", "line_rate")
SCOPE = infrastructure_scope.no_scope
HEIGHT = 250
LINES = {"utilization_max": ("largest sample", theme.BLUE), "utilization_mean": ("mean of all samples", theme.ORANGE)}
KEY = (
    "Utilization of the busier direction, in samples of infrastructure.bin_s; line rate: a sample of at least "
    "infrastructure.line_rate_share. Dashed: the paper's 38 % and 50 %."
)
PAPER_PERCENT = 38  # the paper's median, in percent of the line rate


def draw(source: Source) -> Figure:
    """Draw the cumulative distributions of the largest and the mean utilization of each port."""
    rows = [row for row in source.rows(TABLE) if row["utilization_max"] is not None]
    if not rows:
        raise NoData("no port with a known rate has samples (infrastructure.telemetry)")
    summary = infrastructure_scope.summary(source)
    low, at_line_rate = percent(summary["low_ports"] / summary["ports"]), summary["line_rate_ports"]
    medians = (percent(summary[f"utilization_{kind}_median"]) for kind in ("max", "mean"))
    parts = [count(summary["ports"], "port"), "median of the largest sample {}, of the mean {}".format(*medians)]
    parts.append(infrastructure_scope.comparison_note("utilization", low))
    parts.append(
        infrastructure_scope.comparison_note(
            "line_rate", f"{at_line_rate} ({percent(at_line_rate / summary['ports'])})"
        )
    )
    if unknown := len(source.rows(TABLE)) - len(rows):
        parts.append(f"not included: {count(unknown, 'port')} without samples or known rate")
    key = (infrastructure_scope.note(*parts), KEY)
    verb = "reaches" if at_line_rate == 1 else "reach"
    title = f"{low} of ports have no sample above {PAPER_PERCENT} %; {count(at_line_rate, 'port')} {verb} the line rate"
    return Figure(title, chart(rows), key)


def distribution(rows: list[dict], column: str, name: str) -> list[dict]:
    """Return the steps of a cumulative distribution."""
    values = sorted(100 * row[column] for row in rows)
    first = {"utilization": 0.0, "share": 0.0, "line": name, "order": 0}
    steps = [
        {"utilization": value, "share": 100 * rank / len(values), "line": name, "order": rank}
        for rank, value in enumerate(values, 1)
    ]
    last = {"utilization": max(100.0, values[-1]), "share": 100.0, "line": name, "order": len(values) + 1}
    return [first, *steps, last]


def chart(rows: list[dict]) -> alt.LayerChart:
    """Return both lines, over the paper's median."""
    values = [step for column, (name, _) in LINES.items() for step in distribution(rows, column, name)]
    last = max(value["utilization"] for value in values)
    names = [name for name, _ in LINES.values()]
    lines = (
        alt.Chart(Rows(values=values))
        .mark_line(interpolate="step-after", strokeWidth=1.8)
        .encode(
            x=alt.X("utilization:Q", title="utilization of a port (%)", scale=alt.Scale(domain=[0, last], nice=False)),
            y=alt.Y("share:Q", title="ports of at most that utilization (%)", scale=alt.Scale(domain=[0, 100])),
            color=alt.Color(
                "line:N",
                scale=alt.Scale(domain=names, range=[color for _, color in LINES.values()]),
                sort=names,
                legend=alt.Legend(title=None, orient="bottom", symbolType="stroke", symbolSize=200, labelLimit=220),
            ),
            order="order:Q",
            tooltip=["line:N", alt.Tooltip("utilization:Q", format=".3~g"), alt.Tooltip("share:Q", format=".3~g")],
        )
    )
    rule = {"color": theme.GRAY, "strokeDash": [4, 3]}
    paper = alt.Chart(Rows(values=[{"utilization": PAPER_PERCENT, "share": 50}]))
    marks = (paper.mark_rule(**rule).encode(x="utilization:Q"), paper.mark_rule(**rule).encode(y="share:Q"))
    return alt.layer(*marks, lines).properties(width=theme.WIDTH - 70, height=HEIGHT)
