"""Draws values against the number of parallel streams, with a line per algorithm and combination of other settings."""

from dataclasses import dataclass

import altair as alt

from . import theme, transfer_scope
from .source import NoData

HOLLOW = "hollow: a run has a flag"
KEY = f"bars: smallest and largest run; {HOLLOW}"
COLORS = (theme.BLUE, theme.VERMILION, theme.GREEN, theme.PURPLE, theme.ORANGE, theme.SKY)
DASHES = ([1, 0], [5, 3], [1, 2], [7, 2, 1, 2])
OTHERS = (
    *("size_bytes", "mode", "topology", "rate_bps", "delay_ns", "buffer_bytes"),
    *("ratio", "delay_on", "loss_percent", "reorder_percent"),
)
LOG_SPAN = 30
WIDTH = 262
HEIGHT = 220


def stream_rows(rows: list[dict], column: str) -> list[dict]:
    """Return the rows of settings that were run with several numbers of streams. Raises NoData if there are none."""
    known = [row for row in rows if row[column] is not None and row["streams"] is not None and row["ratio"] is None]
    groups = transfer_scope.group_rows(known, (*OTHERS, "algorithm"))
    varied_rows = [row for group in groups.values() if len({row["streams"] for row in group}) > 1 for row in group]
    if not varied_rows:
        raise NoData("no settings were run with several numbers of parallel streams")
    return varied_rows


@dataclass(frozen=True)
class Lines:
    """Lines of a value: columns with its mean, low and high, the factor of its unit, and the title of its axis."""

    rows: list[dict]
    columns: tuple[str, str, str]
    factor: float
    axis: str
    zero: bool = False  # draw a line at 0; otherwise the axis is logarithmic if max >= LOG_SPAN * min > 0

    def values(self) -> list[dict]:
        """Return the points of the lines. Rows without an algorithm compare the algorithms."""
        varied = transfer_scope.varying(self.rows, OTHERS) or ["size_bytes"]
        points = []
        for row in self.rows:
            mean, low, high = (row[name] for name in self.columns)
            algorithm = transfer_scope.name_of(row["algorithm"]) if "algorithm" in row else None
            points.append(
                {
                    "streams": row["streams"],
                    "set": transfer_scope.setting_text(row, varied) or "all",
                    "algorithm": algorithm or "difference",
                    "mean": mean * self.factor,
                    "low": (mean if low is None else low) * self.factor,
                    "high": (mean if high is None else high) * self.factor,
                    "flagged": transfer_scope.is_flagged(row),
                }
            )
        return points

    def y(self, values: list[dict]) -> alt.Y:
        """Return the vertical axis."""
        ends = [end(value[name] for value in values) for name, end in (("low", min), ("high", max))]
        if self.zero or ends[0] <= 0 or ends[1] < LOG_SPAN * ends[0]:
            return alt.Y("mean:Q", title=self.axis)
        return alt.Y(
            "mean:Q", title=f"{self.axis}, log", scale=alt.Scale(type="log"), axis=alt.Axis(format=",~g", tickCount=4)
        )

    def chart(self) -> alt.LayerChart:
        """Return the chart."""
        values = self.values()
        sets = list(dict.fromkeys(value["set"] for value in values))
        names = list(dict.fromkeys(value["algorithm"] for value in values))
        color = alt.Color(
            "set:N",
            scale=alt.Scale(domain=sets, range=[COLORS[n % len(COLORS)] for n in range(len(sets))]),
            legend=alt.Legend(
                title=None, orient="bottom", symbolType="stroke", symbolSize=200, labelLimit=240, columns=3
            ),
        )
        dash = alt.StrokeDash(
            "algorithm:N",
            scale=alt.Scale(domain=names, range=[DASHES[n % len(DASHES)] for n in range(len(names))]),
            legend=alt.Legend(title=None, orient="bottom", symbolType="stroke", symbolSize=300),
        )
        lines = {"strokeDash": dash} if "algorithm" in self.rows[0] else {}
        base = alt.Chart(alt.Data(values=values)).encode(
            x=alt.X("streams:Q", title="parallel streams", axis=alt.Axis(format="d", tickMinStep=1)),
            y=self.y(values),
            color=color,
            tooltip=[
                *(alt.Tooltip(f"{name}:N") for name in ("set", "algorithm", "streams")),
                *(alt.Tooltip(f"{name}:Q", format=".4~g") for name in ("mean", "low", "high")),
            ],
        )
        layers = [
            base.mark_rule(strokeWidth=1).encode(y="low:Q", y2="high:Q"),
            base.mark_line(strokeWidth=1.6).encode(**lines),
            base.transform_filter("!datum.flagged").mark_circle(size=30, opacity=1),
            base.transform_filter("datum.flagged").mark_point(size=34, fill=theme.WHITE, opacity=1),
        ]
        if self.zero:
            rule = alt.Chart(alt.Data(values=[{"mean": 0}])).mark_rule(color=theme.GRAY, strokeDash=[2, 2])
            layers.insert(0, rule.encode(y="mean:Q"))
        return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)
