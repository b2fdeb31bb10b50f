"""Completion time of BBR and Cubic against buffer and delay (sliced-WAN paper, figure 4, right)."""

from acapella.common.wording import count, digits

from . import transfer_heatmap, transfer_scope
from .compose import Figure
from .source import Source

SUBJECT = "Completion time of transfers"
TABLE = "transfer_settings"
COLUMNS = ("algorithm", "delay_ns", "buffer_bytes", "completion_ns_mean", "completion_ns_stddev", "runs", "flags")
SCOPE = transfer_scope.scope_of(transfer_heatmap.heat_rows)


def draw(source: Source) -> Figure:
    """Draw a heatmap per algorithm."""
    rows = source.rows(TABLE)
    order = transfer_scope.algorithms(rows)
    rows.sort(key=lambda row: (row["setting"], order.index(row["algorithm"])))
    measure = transfer_heatmap.Measure(
        lambda row: None if row["completion_ns_mean"] is None else row["completion_ns_mean"] / 1e9,
        lambda row: text(row["completion_ns_mean"]),
        "s",
        spread=lambda row: transfer_heatmap.deviation(
            row["completion_ns_stddev"] and row["completion_ns_stddev"] / 1e9
        ),
    )
    chart, notes = transfer_heatmap.heatmap(rows, measure, lambda row: transfer_scope.name_of(row["algorithm"]))
    return Figure(title(transfer_heatmap.heat_groups(rows)), chart, (*transfer_heatmap.KEY, *notes))


def title(groups: list[list[dict]]) -> str:
    """Return in how many settings each of the first two algorithms completes first."""
    settings: dict[int, dict[str, float]] = {}
    for row in (row for group in groups for row in group if row["completion_ns_mean"] is not None):
        settings.setdefault(row["setting"], {})[row["algorithm"]] = row["completion_ns_mean"]
    both = [times for times in settings.values() if {*transfer_scope.FIRST} <= times.keys()]
    if not both:
        return "Completion time"
    first = [sum(times[one] < times[other] for times in both) for one, other in (("bbr", "cubic"), ("cubic", "bbr"))]
    return f"BBR completes first in {first[0]}, Cubic in {first[1]} of {count(len(both), 'setting')}"


def text(ns: float | None) -> str:
    """Return the text of a cell."""
    return transfer_heatmap.MISSING if ns is None else digits(ns / 1e9)
