"""Criteria for agreement of measured with exact values: R2, missing values, errors, and the width of intervals.

The bounds are defined only here. Figure flowreport_accuracy, the report and docs/flowreports.md contain the text of
STATEMENT.
"""

from dataclasses import dataclass

MIN_R2 = 0.99  # section IV-A of the P4/RDMA paper: "all the experiments had an R2 > 0.99"
MAX_MISSING = 0.05  # share of exact values without a reported value; R2 does not include them
MIN_ABOVE = 10  # pairs with both values above 0; with fewer, nothing can be concluded about the measure
MIN_WITHIN = 0.995  # share of values within the permitted error; in R2, large values can hide wrong small ones
TOO_FEW = "too few values"
MAX_WIDTH = 0.01  # maximum median width of intervals, as a share of the sequence numbers or of the payload
MAX_WIDTH_P99 = 0.1  # maximum 99th percentile of the width


@dataclass(frozen=True)
class Kind:
    """A kind of values.

    ``within`` is the column of flowreport_accuracy with the share of values within the permitted error.
    """

    name: str
    within: str | None
    error: str


# The program counts every packet, so counts must be equal.
COUNT = Kind("count", "equal_share", "equal")
# Both sides have the same timestamps, but reports may round them: the resolution of format 1 is 1,024 ns.
TIME = Kind("time", "near_share", "within 1 %")
# Quotients of counts and times, which are rounded.
RATE = Kind("rate", "near_share", "within 1 %")
# A lower and an upper bound. The exact number must be between them, and they must be close to each other.
INTERVAL = Kind("interval", None, "in the interval")

DERIVED = {  # table II of the P4/RDMA paper, section III-A4: derived metric: measure of flowreport_accuracy
    "start time": "start",
    "end time": "end",
    "flow size": "bytes",
    "total packets": "packets",
    "average packet size": "packet_size",
    "bytes in flight": "bytes_in_flight",
    "acknowledged bytes": "acknowledged_bytes",
    "packet loss rate": "loss",
    "throughput": "throughput_reports",
    "duration": "duration",
}
MEASURES = (
    *("rtt_syn", "rtt_ack", *DERIVED.values()),
    *("retransmitted", "iat", "iat_reports", "throughput", "throughput_known"),
)
KINDS = {
    **dict.fromkeys(("bytes", "packets", "bytes_in_flight", "acknowledged_bytes"), COUNT),
    **dict.fromkeys(("rtt_syn", "rtt_ack", "start", "end", "duration", "iat", "iat_reports"), TIME),
    **dict.fromkeys(("packet_size", "throughput_reports", "throughput", "throughput_known"), RATE),
    **dict.fromkeys(("loss", "retransmitted"), INTERVAL),
}
STATEMENT = (
    f"A measure agrees if R\u00b2 of values and of logarithms is at least {MIN_R2}, at most {100 * MAX_MISSING:g} % "
    f"of the values are missing, and at least {100 * MIN_WITHIN:g} % of the others are {COUNT.error} (counts) or "
    f"{TIME.error} (times and rates). The remaining values may have any error; error_largest is the largest one. "
    "Loss and retransmitted payload are intervals. All intervals have to contain the exact number. The median width of "
    f"the intervals other than 0 to 0 may be at most {100 * MAX_WIDTH:g} % of the sequence numbers (loss) or of the "
    f"payload (retransmission), and the 99th percentile at most {100 * MAX_WIDTH_P99:g} %. A measure with fewer than "
    f"{MIN_ABOVE} values above 0 has too few values to agree."
)


def bound(measure: str) -> str:
    """Return the bound on the values of a measure in a few words."""
    kind = KINDS[measure]
    if kind is INTERVAL:
        return f"all {kind.error}, width at most {100 * MAX_WIDTH:g} % (median), {100 * MAX_WIDTH_P99:g} % (p99)"
    return f"{100 * MIN_WITHIN:g} % {kind.error}"


def own_rows(rows: list[dict]) -> list[dict]:
    """Return the rows of flowreport_accuracy for the run that produced the reports of the samples.

    If the program ran with two sets of triggers, this is the run with all triggers.
    """
    run = min((row["triggers"] for row in rows), default=None)
    return [row for row in rows if row["triggers"] == run]


def disagreement(row: dict | None) -> str | None:
    """Return why a row of flowreport_accuracy does not agree; None if it does.

    If all exact values are the same, R2 is undefined. In this case, all pairs must be equal.
    """
    if row is None or not row["n"] + row["missing"]:
        return f"{TOO_FEW}: all ambiguous" if row and row["ambiguous"] else "no values"
    if not row["n"]:
        return "all values missing"
    reasons = faults(row)
    if not reasons and row["n_log"] < MIN_ABOVE:
        return f"{TOO_FEW}: {row['n_log']} above 0"
    return ", ".join(reasons.values()) or None


def faults(row: dict) -> dict[str, str]:
    """Return the criteria that a row with pairs does not meet, each with a description of the measured value."""
    unmet = {}
    for name, criterion, label in (("r2", "R2", "R2"), ("r2_log", "log R2", "R2 of logarithms")):
        if row[name] is not None and row[name] < MIN_R2:
            unmet[criterion] = f"{label} {row[name]:.4g}"
    if row["r2"] is None and row["equal"] < row["n"]:
        unmet["R2"] = f"R2 undefined, {row['n'] - row['equal']:,} of {row['n']:,} values differ"
    if row["missing_share"] > MAX_MISSING:
        unmet["missing"] = f"{100 * row['missing_share']:.3g} % missing"
    kind = KINDS[row["measure"]]
    return unmet | (interval_faults(row) if kind is INTERVAL else error_faults(row, kind))


def differs(row: dict | None) -> bool:
    """Return whether a row of flowreport_accuracy shows a disagreement; False if it has too few values."""
    reason = disagreement(row)
    return reason is not None and not reason.startswith(TOO_FEW)


def verdict(row: dict | None) -> str:
    """Return the verdict on a row of flowreport_accuracy: agrees, differs, or too few values, with the reason."""
    reason = disagreement(row)
    if reason is None:
        return "agrees"
    return reason if reason.startswith(TOO_FEW) else f"differs: {reason}"


def error_faults(row: dict, kind: Kind) -> dict[str, str]:
    """Return the criterion of the kind if too many values of a row exceed its permitted error."""
    share = row[kind.within]
    return {} if share >= MIN_WITHIN else {kind.error: f"{floor_percent(share)} % {kind.error}"}


def interval_faults(row: dict) -> dict[str, str]:
    """Return the criteria that the intervals of a row do not meet: containing the exact value, and maximum widths."""
    if row["covered_share"] is None:
        return {INTERVAL.error: "no intervals"}
    unmet = {}
    if row["covered_share"] < 1:
        outside = f"{100 * (1 - row['covered_share']):.3g} % of intervals do not contain the exact value"
        unmet[INTERVAL.error] = outside
    for name, label, maximum in (("width_median", "median", MAX_WIDTH), ("width_p99", "p99", MAX_WIDTH_P99)):
        if row[name] is not None and row[name] > maximum:
            unmet[f"{label} width"] = f"{label} width {100 * row[name]:.3g} %"
    return unmet


def floor_percent(share: float) -> str:
    """Return a share in percent, rounded down so that a value below a bound is not printed as the bound."""
    return f"{int(share * 1e5) / 1e3:.5g}"


def severity(row: dict) -> tuple:
    """Return a sort key for rows of flowreport_accuracy: rows that differ, rows with too few values, rows that agree.

    Within each group, the worst row is first.
    """
    scores = [row[name] for name in ("r2", "r2_log") if row[name] is not None]
    if not scores:
        scores = [row["equal"] / row["n"] if row["n"] else 0.0]
    within = KINDS[row["measure"]].within or "covered_share"
    scores += [1 - (row["missing_share"] or 0), row[within] or 0.0]
    group = (differs(row), disagreement(row) is not None, True).index(True)
    return (group, min(scores), row["near_share"] or 0)
