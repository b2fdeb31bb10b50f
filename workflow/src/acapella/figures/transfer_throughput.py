"""Figure transfer_throughput of the report, described by ABOUT."""

from acapella.common.wording import digits, span

from . import transfer_heatmap, transfer_scope
from .compose import Figure
from .source import Source

SUBJECT = "Throughput of transfers"
ABOUT = "Throughput of BBR and CUBIC against buffer and delay (sliced-WAN paper, figure 4, left)."
TABLE = "transfer_settings"
COLUMNS = ("algorithm", "delay_ns", "buffer_bytes", "throughput_bps_mean", "throughput_bps_stddev", "runs", "flags")
SCOPE = transfer_scope.scope_of(transfer_heatmap.heat_rows)


def draw(source: Source) -> Figure:
    """Draw a heatmap per algorithm."""
    rows = source.rows(TABLE)
    order = transfer_scope.algorithms(rows)
    rows.sort(key=lambda row: (row["setting"], order.index(row["algorithm"])))
    measure = transfer_heatmap.Measure(
        lambda row: megabits(row["throughput_bps_mean"]),
        lambda row: text(row["throughput_bps_mean"]),
        "throughput (Mbit/s)",
        spread=lambda row: transfer_heatmap.deviation(
            row["throughput_bps_stddev"] and row["throughput_bps_stddev"] / 1e6
        ),
    )
    chart, notes = transfer_heatmap.heatmap(rows, measure, lambda row: transfer_scope.name_of(row["algorithm"]))
    ranges = ranges_text(transfer_heatmap.heat_rows(rows), order)
    return Figure(f"Throughput: {ranges}", chart, (*transfer_heatmap.KEY, *notes))


def ranges_text(rows: list[dict], order: list[str]) -> str:
    """Return the range of the mean throughput of each algorithm."""
    parts = []
    for name in order:
        rates = [
            megabits(row["throughput_bps_mean"])
            for row in rows
            if row["algorithm"] == name and row["throughput_bps_mean"] is not None
        ]
        ends = f"{span(digits(min(rates)), digits(max(rates)))} Mbit/s" if rates else "no complete run"
        parts.append(f"{transfer_scope.name_of(name)} {ends}")
    return ", ".join(parts)


def megabits(bps: float | None) -> float | None:
    """Return a rate in Mbit/s."""
    return None if bps is None else bps / 1e6


def text(bps: float | None) -> str:
    """Return the text of a cell."""
    return transfer_heatmap.MISSING if bps is None else digits(bps / 1e6)
