"""Figure transfer_streams of the report, described by ABOUT."""

import altair as alt

from acapella.common.wording import count, digits, listed, span

from . import transfer_lines, transfer_scope
from .compose import Figure
from .source import Source

SUBJECT = "Completion time against streams"
ABOUT = "Completion time against parallel streams for each size, and CUBIC minus BBR (sliced-WAN paper, figure 6)."
TABLE = "transfer_settings"
COLUMNS = (
    *("algorithm", "streams", "size_bytes", "completion_ns_mean", "completion_ns_low", "completion_ns_high"),
    "completion_source",
)
MAX_SIZES = 4  # in the title
SCOPE = transfer_scope.scope_of(lambda rows: transfer_lines.stream_rows(rows, "completion_ns_mean"))


def draw(source: Source) -> Figure:
    """Draw the completion times on the left, the differences on the right."""
    rows = transfer_lines.stream_rows(source.rows(TABLE), "completion_ns_mean")
    lines = transfer_lines.Lines(
        rows, ("completion_ns_mean", "completion_ns_low", "completion_ns_high"), 1e-9, "completion time (s)"
    )
    settings = {row["setting"] for row in rows}
    gains = [
        row for row in source.rows("transfer_gain") if row["setting"] in settings and row["difference_ns"] is not None
    ]
    columns = ("difference_ns", "difference_low_ns", "difference_high_ns")
    right = transfer_lines.Lines(gains, columns, 1e-9, "CUBIC \N{MINUS SIGN} BBR (s)", zero=True)
    chart = alt.hconcat(lines.chart(), right.chart(), spacing=30) if gains else lines.chart()
    note = transfer_scope.completion_note(rows)
    return Figure(title(gains), chart, (note, transfer_lines.KEY, "right: positive if BBR completes first"))


def title(gains: list[dict]) -> str:
    """Return the title: the mean difference for each size, or the range of differences if other settings also vary."""
    if not gains:
        return "Completion time against parallel streams"
    sizes = transfer_scope.group_rows(gains, ("size_bytes",))
    others = transfer_scope.varying(gains, [name for name in transfer_lines.OTHERS if name != "size_bytes"])
    if others or len(sizes) > MAX_SIZES:
        ends = [seconds(end(row["difference_ns"] for row in gains)) for end in (min, max)]
        return f"CUBIC minus BBR: {span(*ends)} s in {count(len(gains), 'setting')}"
    parts = []
    for (size,), rows in sizes.items():
        mean = sum(row["difference_ns"] for row in rows) / len(rows)
        parts.append(f"{seconds(mean)} s for {transfer_scope.byte_text(size)}")
    return f"CUBIC minus BBR, mean over the numbers of streams: {listed(parts)}"


def seconds(ns: float) -> str:
    """Return a time in seconds with its sign, without unit."""
    return digits(ns / 1e9) if ns >= 0 else f"\N{MINUS SIGN}{digits(-ns / 1e9)}"
