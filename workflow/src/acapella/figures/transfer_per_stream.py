"""Figure transfer_per_stream of the report, described by ABOUT."""

import altair as alt

from acapella.common.wording import GAP

from . import transfer_lines, transfer_scope
from .compose import Figure
from .source import Source

SUBJECT = "Throughput per stream"
ABOUT = "Throughput per parallel stream, and its gain for BBR over CUBIC (sliced-WAN paper, figure 7)."
TABLE = "transfer_settings"
COLUMNS = ("algorithm", "streams", "size_bytes", "per_stream_bps_mean", "per_stream_bps_low", "per_stream_bps_high")
SCOPE = transfer_scope.scope_of(lambda rows: transfer_lines.stream_rows(rows, "per_stream_bps_mean"))


def draw(source: Source) -> Figure:
    """Draw the throughput per stream on the left, the gain on the right."""
    rows = transfer_lines.stream_rows(source.rows(TABLE), "per_stream_bps_mean")
    columns = ("per_stream_bps_mean", "per_stream_bps_low", "per_stream_bps_high")
    left = transfer_lines.Lines(rows, columns, 1e-6, "throughput per stream (Mbit/s)")
    settings = {row["setting"] for row in rows}
    gains = [
        row for row in source.rows("transfer_gain") if row["setting"] in settings and row["gain_percent"] is not None
    ]
    right = transfer_lines.Lines(gains, ("gain_percent", "gain_low", "gain_high"), 1, "gain of BBR (%)", zero=True)
    chart = alt.hconcat(left.chart(), right.chart(), spacing=30) if gains else left.chart()
    notes = (
        "left: bars from the slowest to the fastest stream; right: 100 (BBR \N{MINUS SIGN} CUBIC) / BBR, bars for the "
        "smallest and largest run",
        transfer_lines.HOLLOW,
    )
    return Figure(title(gains), chart, notes)


def title(gains: list[dict]) -> str:
    """Return the title: the largest gain per stream, its number of streams, and further settings that vary."""
    if not gains:
        return "Throughput per parallel stream"
    best = max(gains, key=lambda row: (row["gain_percent"], row["streams"] or 0))
    gain = f"{best['gain_percent']:.0f}".replace("-", "\N{MINUS SIGN}").replace("\N{MINUS SIGN}0", "0")
    where = transfer_scope.setting_text(best, ["streams", *transfer_scope.varying(gains, transfer_lines.OTHERS)])
    head = "The gain of BBR per stream is" + (" largest" if len(gains) > 1 else "")
    return f"{head} with {where}: {gain}{GAP}%"
