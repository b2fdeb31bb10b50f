"""Figure transfer_queueing of the report, described by ABOUT."""

from acapella.common.wording import GAP, digits, span

from . import transfer_heatmap, transfer_scope
from .compose import Figure
from .source import NoData, Source

SUBJECT = "Queueing delay of transfers"
ABOUT = "Queueing delay against buffer and delay: round-trip time on the wire minus the smallest one on the path."
TABLE = "transfer_settings"
COLUMNS = ("algorithm", "delay_ns", "buffer_bytes", "queue_mean_ns", "runs", "flags")
SCOPE = transfer_scope.scope_of(transfer_heatmap.heat_rows)


def draw(source: Source) -> Figure:
    """Draw a heatmap per algorithm."""
    rows = source.rows(TABLE)
    if rows and all(row["queue_mean_ns"] is None for row in rows):
        raise NoData("no run has a capture with round-trip times")
    order = transfer_scope.algorithms(rows)
    rows.sort(key=lambda row: (row["setting"], order.index(row["algorithm"])))
    measure = transfer_heatmap.Measure(milliseconds, text, "queueing (ms)")
    chart, notes = transfer_heatmap.heatmap(rows, measure, lambda row: transfer_scope.name_of(row["algorithm"]))
    key = (
        "mean round-trip time on the wire minus the smallest of the run on the same path; black frame: a run has a flag"
    )
    return Figure(title(transfer_heatmap.heat_rows(rows), order), chart, (key, *notes))


def milliseconds(row: dict) -> float | None:
    """Return the mean queueing delay in ms."""
    return None if row["queue_mean_ns"] is None else row["queue_mean_ns"] / 1e6


def text(row: dict) -> str:
    """Return the text of a cell, with the digits of `short`: more do not fit into the cells of a grid of 8 x 8."""
    value = milliseconds(row)
    return transfer_heatmap.MISSING if value is None else short(value)


def short(value: float) -> str:
    """Return a time in ms with three significant digits; below 1 ms, with two digits after the decimal point."""
    return digits(value) if value >= 1 else f"{value:.2f}"


def title(rows: list[dict], order: list[str]) -> str:
    """Return the title: the range of the queueing delay of each algorithm."""
    parts = []
    for name in order:
        delays = [value for row in rows if row["algorithm"] == name and (value := milliseconds(row)) is not None]
        if delays:
            parts.append(f"{transfer_scope.name_of(name)} {span(short(min(delays)), short(max(delays)))}{GAP}ms")
    return f"Queueing delay: {', '.join(parts)}"
