"""Figure transfer_gain of the report, described by ABOUT."""

import math
import statistics

from acapella.common.wording import GAP, count
from acapella.transfer.tables import SHALLOW_BDP

from . import theme, transfer_heatmap, transfer_outcome, transfer_scope, transfer_shallow
from .compose import Figure
from .source import NoData, Source
from .transfer_outcome import DECIMALS

SUBJECT = "Gain of BBR over CUBIC"
ABOUT = "Gain of BBR over CUBIC in throughput against buffer and delay (sliced-WAN paper, figure 5, left)."
TABLE = "transfer_gain"
COLUMNS = (
    *("delay_ns", "buffer_bytes", "gain_percent", "gain_low", "gain_high", "comparison"),
    *("bbr_runs", "cubic_runs", "flagged"),
)
SCOPE = transfer_scope.scope_of(transfer_heatmap.compared_rows)
# Blue: CUBIC is faster; red: BBR is faster, as in the paper.
COLORS = (theme.BLUE, "#7FB8D8", "#F7F7F7", "#EBAE7F", theme.VERMILION)
LEAST_SCALE = 10.0  # percent: minimum end of the color scale, so that noise does not have the colors of large gains
REPEATED = 2  # minimum number of runs per algorithm for a range of the gain
KEY = "positive: BBR is faster; black frame: a run of the cell has a flag"
RANGE_KEY = "second line: gain of the slowest BBR run over the fastest CUBIC run, and of the fastest over the slowest"
INFINITE = "\N{MINUS SIGN}\N{INFINITY}"
CASES = {"bbr_zero": INFINITE, "both_zero": "0/0"}
MISSING = {"bbr_missing", "cubic_missing"}


def draw(source: Source) -> Figure:
    """Draw one heatmap."""
    rows = source.rows(TABLE)
    if rows and all(row["comparison"] in MISSING for row in rows):
        raise NoData("no settings have complete runs of both BBR and CUBIC")
    chart, notes = transfer_heatmap.heatmap(
        rows, measure(), lambda row: "100 (BBR \N{MINUS SIGN} CUBIC) / BBR, of mean throughput"
    )
    drawn = transfer_heatmap.heat_rows(rows)
    key = (KEY, *([RANGE_KEY] if any(map(gain_range, drawn)) else []), *shallow_notes(drawn, source), *notes)
    return Figure(title(drawn), chart, key)


def measure() -> transfer_heatmap.Measure:
    """Return the measure that the heatmap shows."""
    return transfer_heatmap.Measure(
        lambda row: row["gain_percent"],
        text,
        "gain (%)",
        COLORS,
        spread=gain_range,
        symmetric=True,
        least=LEAST_SCALE,
        neutral=transfer_outcome.EQUAL_PERCENT,
        spread_title="range of the gain",
    )


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
    if value == -math.inf:
        return INFINITE
    rounded = round(value, decimals)
    sign = "+" if rounded > 0 else "\N{MINUS SIGN}" if rounded < 0 else ""
    return f"{sign}{abs(rounded):.{decimals if rounded else 0}f}"


def title(rows: list[dict]) -> str:
    """Return the title: in how many settings each algorithm is faster at the printed precision, and the median gain."""
    gains = [gain for row in rows if (gain := transfer_outcome.gain_of(row)) is not None]
    median = f"; median gain {signed(statistics.median(gains), DECIMALS)}{GAP}%" if gains else ""
    return f"{transfer_outcome.summary('is faster', [*map(transfer_outcome.outcome, rows)], len(rows))}{median}"


def shallow_notes(rows: list[dict], source: Source) -> list[str]:
    """Return a note on the median gain with shallow buffers and, if it is small, a note with the reasons.

    Returns [] if no setting is known to have a buffer below SHALLOW_BDP.
    """
    gains = transfer_shallow.gains(rows)
    if not gains:
        return []
    median = signed(statistics.median(gains), 1)
    note = f"median gain with buffers below {SHALLOW_BDP} BDP: {median}{GAP}% ({count(len(gains), 'setting')})"
    return [note, *filter(None, [transfer_shallow.explanation(source)])]
