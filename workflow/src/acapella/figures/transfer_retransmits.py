"""Figure transfer_retransmits of the report, described by ABOUT."""

from acapella.common.wording import count, digits

from . import theme, transfer_heatmap, transfer_scope
from .compose import Figure
from .source import Source

SUBJECT = "Retransmissions of transfers"
ABOUT = "Retransmissions of BBR and CUBIC against buffer and delay (sliced-WAN paper, figure 5, right)."
TABLE = "transfer_settings"
COLUMNS = ("algorithm", "delay_ns", "buffer_bytes", "retransmits_mean", "retransmits_stddev", "runs", "flags")
SCOPE = transfer_scope.scope_of(transfer_heatmap.heat_rows)
PAPER = (2, 6)  # section 4.1: "BBR often incurs 2 to 6 times more retransmissions than Cubic"


def draw(source: Source) -> Figure:
    """Draw a heatmap per algorithm."""
    rows = source.rows(TABLE)
    order = transfer_scope.algorithms(rows)
    rows.sort(key=lambda row: (row["setting"], order.index(row["algorithm"])))
    measure = transfer_heatmap.Measure(
        lambda row: row["retransmits_mean"],
        lambda row: text(row["retransmits_mean"]),
        "retransmitted segments",
        theme.LEVELS,
        spread=lambda row: (
            "" if row["retransmits_stddev"] is None else f"\N{PLUS-MINUS SIGN}{text(row['retransmits_stddev'])}"
        ),
        scale="symlog",
    )
    chart, notes = transfer_heatmap.heatmap(rows, measure, lambda row: transfer_scope.name_of(row["algorithm"]))
    drawn = {row["setting"] for row in transfer_heatmap.heat_rows(rows)}
    gains = [row for row in source.rows("transfer_gain") if row["setting"] in drawn]
    return Figure(title(gains), chart, (*transfer_heatmap.KEY, *notes, "color: logarithmic"))


def title(gains: list[dict]) -> str:
    """Return the title: in how many settings BBR retransmits 2 to 6 times as much as CUBIC, as the paper states."""
    known = [row for row in gains if row["bbr_retransmits"] is not None and row["cubic_retransmits"] is not None]
    if not known:
        return "Retransmitted segments"
    low, high = PAPER
    in_range = sum(row["retransmits_ratio"] is not None and low <= row["retransmits_ratio"] <= high for row in known)
    more = sum(row["bbr_retransmits"] > row["cubic_retransmits"] for row in known)
    return (
        f"BBR retransmits more than CUBIC in {more} of {count(len(known), 'setting')}, "
        f"by the paper's factor of {low} to {high} in {in_range}"
    )


def text(value: float | None) -> str:
    """Return a number of segments as short text: ``812``, ``18k``, ``1.2M``."""
    if value is None:
        return transfer_heatmap.MISSING
    for size, unit in ((10**6, "M"), (10**3, "k")):
        if value >= 0.9995 * size:
            return f"{value / size:.2g}{unit}" if value < 9.95 * size else f"{value / size:.0f}{unit}"
    return digits(value)
