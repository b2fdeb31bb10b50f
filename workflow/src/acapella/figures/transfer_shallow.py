"""Explains in text why the gain of BBR over CUBIC is small with shallow buffers, from values measured on the wire."""

import statistics

from acapella.common.wording import GAP, count, digits, listed, percent
from acapella.transfer.tables import SHALLOW_BDP

from .source import Source
from .transfer_outcome import gain_of

GOAL_PERCENT = 10  # with shallow buffers, a median gain that is not larger is explained
LEAST_LOSS = 0.02  # difference of the shares of retransmitted frames that counts as a reason
LEAST_FLIGHT_BDP = 0.9  # with fewer bytes in flight, a sender does not fill the path


def gains(rows: list[dict]) -> list[float]:
    """Return the gains of rows of transfer_gain with shallow buffers, in percent; -inf if BBR transferred nothing."""
    shallow = [row for row in rows if row["buffer_bdp"] is not None and row["buffer_bdp"] < SHALLOW_BDP]
    return [gain for row in shallow if (gain := gain_of(row)) is not None]


def explanation(source: Source) -> str:
    """Return the reasons for a small gain with shallow buffers; empty if it is not small, or unknown."""
    shallow_gains = gains(source.rows("transfer_gain"))
    if not shallow_gains or statistics.median(shallow_gains) > GOAL_PERCENT:
        return ""
    rows = {row["algorithm"]: row for row in source.rows("transfer_shallow")}
    return f"{text(rows['bbr'], rows['cubic'])} (transfer_shallow.csv)"


def text(bbr: dict, cubic: dict) -> str:
    """Return evidence and reasons from the rows of transfer_shallow of both algorithms."""
    head = f"The gain with buffers below {SHALLOW_BDP} BDP is at most {GOAL_PERCENT}{GAP}%"
    if not min(bbr["settings_captured"], cubic["settings_captured"]):
        return f"{head}; without captures of both algorithms, the reason is unknown"
    evidence = [
        pair("throughput", bbr, cubic, "rate_share", lambda value: f"{percent(value)} of the rate"),
        pair("retransmitted", bbr, cubic, "wire_retransmitted_share", lambda value: f"{percent(value)} of the frames"),
        pair("retransmissions per run", bbr, cubic, "wire_retransmits", digits),
        pair("queueing delay", bbr, cubic, "queue_ns", lambda value: f"{digits(value / 1e6)}{GAP}ms"),
        pair(
            "in flight (sum of the streams' 95 % quantiles)",
            bbr,
            cubic,
            "wire_flight_bdp",
            lambda value: f"{digits(value)}{GAP}BDP",
        ),
    ]
    if unknown := bbr["settings_window_unknown"]:
        settings = count(bbr["settings"], "setting")
        evidence.append(f"unknown whether a window limited BBR: {unknown} of {settings}")
    why = reasons(bbr, cubic)
    reason = f"Reason: {listed(why)}" if why else "These values do not explain it"
    return f"{head}. Medians of BBR and CUBIC on the wire: {'; '.join(filter(None, evidence))}. {reason}"


def pair(name: str, bbr: dict, cubic: dict, column: str, text_of) -> str:
    """Return a value of both algorithms as text; empty if one is null."""
    if bbr[column] is None or cubic[column] is None:
        return ""
    return f"{name} {text_of(bbr[column])}, {text_of(cubic[column])}"


def reasons(bbr: dict, cubic: dict) -> list[str]:
    """Return what limits BBR's gain, according to the medians.

    BBR cannot exceed the rate of the bottleneck, so its gain is at most 1 minus the share of the rate that CUBIC uses.
    """
    texts = []
    share = cubic["rate_share"]
    if share is not None and 100 * (1 - share) <= GOAL_PERCENT:
        max_gain = percent(max(0.0, 1 - share))
        texts.append(f"CUBIC uses {percent(share)} of the rate, so BBR can gain at most {max_gain}")
    lost = [row["wire_retransmitted_share"] for row in (bbr, cubic)]
    if None not in lost and lost[0] - lost[1] >= LEAST_LOSS:
        texts.append(
            f"BBR retransmits {percent(lost[0])} of its frames, CUBIC {percent(lost[1])}, which leaves less of the "
            "link for new data"
        )
    flight = bbr["wire_flight_bdp"]
    if flight is not None and flight < LEAST_FLIGHT_BDP:
        texts.append(
            f"BBR has only {digits(flight)}{GAP}BDP in flight (95{GAP}% quantiles), so it does not fill the path"
        )
    if limited := bbr["settings_window_limited"]:
        texts.append(f"a window limited BBR in {limited} of {count(bbr['settings'], 'setting')}")
    return texts
