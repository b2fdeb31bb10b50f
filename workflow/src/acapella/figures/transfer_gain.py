"""Gain of BBR over Cubic in throughput against buffer and delay (sliced-WAN paper, figure 5, left)."""

import statistics
from collections import Counter

from acapella.common.wording import GAP, count
from acapella.transfer.tables import SHALLOW_BDP

from . import theme, transfer_heatmap, transfer_scope, transfer_shallow
from .compose import Figure
from .source import NoData, Source

SUBJECT = "Gain of BBR over Cubic"
TABLE = "transfer_gain"
COLUMNS = (
    *("delay_ns", "buffer_bytes", "gain_percent", "gain_low", "gain_high", "comparison"),
    *("bbr_runs", "cubic_runs", "flagged"),
)
SCOPE = transfer_scope.scope_of(transfer_heatmap.compared_rows)
# Blue: Cubic is faster; red: BBR is faster, as in the paper.
COLORS = (theme.BLUE, "#7FB8D8", "#F7F7F7", "#EBAE7F", theme.VERMILION)
DECIMALS = 0  # of a gain in a cell and in the title
EQUAL_PERCENT = 0.5 / 10**DECIMALS  # a gain up to this is printed as 0
REPEATED = 2  # runs of an algorithm from which the gain has a range
KEY = "positive: BBR is faster; black frame: a run of the cell has a flag"
RANGE_KEY = "second line: gain of the slowest BBR run over the fastest Cubic run, and of the fastest over the slowest"
CASES = {"bbr_zero": "\N{MINUS SIGN}\N{INFINITY}", "both_zero": "0/0"}


def draw(source: Source) -> Figure:
    """Draw one heatmap."""
    rows = source.rows(TABLE)
    if rows and all(row["gain_percent"] is None for row in rows):
        raise NoData("no settings have complete runs of both BBR and Cubic")
    measure = transfer_heatmap.Measure(
        lambda row: row["gain_percent"],
        text,
        "gain (%)",
        COLORS,
        spread=gain_range,
        symmetric=True,
        spread_title="range of the gain",
    )
    chart, notes = transfer_heatmap.heatmap(
        rows, measure, lambda row: "100 (BBR \N{MINUS SIGN} Cubic) / BBR, of mean throughput"
    )
    drawn = [row for group in transfer_heatmap.heat_groups(rows) for row in group]
    key = (KEY, *([RANGE_KEY] if any(map(gain_range, drawn)) else []), *shallow(drawn, source), *notes)
    return Figure(title(drawn), chart, key)


def text(row: dict) -> str:
    """Return the text of a cell: the gain with its sign, or the case in which it is undefined."""
    gain = row["gain_percent"]
    if gain is None:
        return CASES.get(row["comparison"], transfer_heatmap.MISSING)
    return signed(gain, DECIMALS)


def gain_range(row: dict) -> str:
    """Return the gains of the extreme runs; empty without repetitions, or if an end is undefined."""
    ends = row["gain_low"], row["gain_high"]
    if max(row["bbr_runs"], row["cubic_runs"]) < REPEATED or None in ends:
        return ""
    return "\N{HORIZONTAL ELLIPSIS}".join(signed(end, DECIMALS) for end in ends)


def signed(value: float, decimals: int) -> str:
    """Return a number with its sign; 0 has none."""
    rounded = round(value, decimals)
    sign = "+" if rounded > 0 else "\N{MINUS SIGN}" if rounded < 0 else ""
    return f"{sign}{abs(rounded):.{decimals if rounded else 0}f}"


def outcome(row: dict) -> str | None:
    """Return what a cell shows: ``bbr`` or ``cubic`` is faster, or they are ``equal`` at the printed precision.

    None if there is nothing to compare.
    """
    if row["gain_percent"] is None:
        return "cubic" if row["comparison"] == "bbr_zero" else None
    printed = round(row["gain_percent"], DECIMALS)
    return "bbr" if printed > 0 else "cubic" if printed < 0 else "equal"


def title(rows: list[dict]) -> str:
    """Return in how many settings each algorithm is faster as printed, and the median gain if any is defined."""
    known = [row["gain_percent"] for row in rows if row["gain_percent"] is not None]
    number = Counter(map(outcome, rows))
    equal = f", equal within {EQUAL_PERCENT}{GAP}% in {number['equal']}" if number["equal"] else ""
    median = f"; median gain {signed(statistics.median(known), DECIMALS)}{GAP}%" if known else ""
    whole = count(len(rows), "setting")
    return f"BBR is faster in {number['bbr']}, Cubic in {number['cubic']}{equal} of {whole}{median}"


def shallow(rows: list[dict], source: Source) -> list[str]:
    """Return a note on the median gain with shallow buffers, and one with the reasons if it is small.

    [] if the share of the buffers in the BDP is not known.
    """
    gains = transfer_shallow.gains(rows)
    if not gains:
        return []
    median = signed(statistics.median(gains), 1)
    note = f"median gain with buffers below {SHALLOW_BDP} BDP: {median}{GAP}% ({count(len(gains), 'setting')})"
    return [note, *filter(None, [transfer_shallow.explanation(source)])]
