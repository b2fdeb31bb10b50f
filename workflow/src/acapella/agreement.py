"""When measured values agree with exact ones: bounds on R2, on logarithms too, and on the share of missing values."""

LEAST_R2 = 0.99  # section IV-A of the P4/RDMA paper: "all the experiments had an R2 > 0.99"
WIDEST = 0.01  # median length of loss intervals, by the sequence numbers of a flow: wider ones tell little
MOST_MISSING = 0.05  # share of exact values that no report has: of these R2 cannot show anything

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


def own_rows(rows: list[dict]) -> list[dict]:
    """Return the rows of flowreport_accuracy of the samples' own run, without those of a second one.

    If the program ran twice the own run is that with all triggers.
    """
    own = min((row["triggers"] for row in rows), default=None)
    return [row for row in rows if row["triggers"] == own]


def disagreement(row: dict | None) -> str | None:
    """Return why a row of flowreport_accuracy does not agree; None if it does.

    R2 is undefined where all exact values are alike: then all pairs have to be equal.
    """
    if row is None or not row["n"] + row["missing"]:
        return "no values"
    if not row["n"]:
        return "all values missing"
    reasons = []
    for name, label in (("r2", "R2"), ("r2_log", "R2 of logarithms")):
        if row[name] is not None and row[name] < LEAST_R2:
            reasons.append(f"{label} {row[name]:.4g}")
    if row["r2"] is None and row["equal"] < row["n"]:
        reasons.append(f"R2 undefined, {row['n'] - row['equal']:,} of {row['n']:,} values differ")
    if row["missing_share"] > MOST_MISSING:
        reasons.append(f"{100 * row['missing_share']:.3g} % missing")
    return ", ".join(reasons + interval_faults(row)) or None


def interval_faults(row: dict) -> list[str]:
    """Return why the loss intervals of a row do not agree: all have to cover the exact value, half of them narrowly."""
    if row.get("measure") != "loss" or not row["n"]:
        return []
    if row["covered_share"] is None:
        return ["no intervals"]
    faults = []
    if row["covered_share"] < 1:
        faults.append(f"{100 * (1 - row['covered_share']):.3g} % of intervals do not cover the exact value")
    if row["width_median"] > WIDEST:
        faults.append(f"median interval {100 * row['width_median']:.3g} % of the sequence numbers")
    return faults


def badness(row: dict) -> tuple:
    """Return a key that sorts rows of flowreport_accuracy, the worst first."""
    known = [row[name] for name in ("r2", "r2_log") if row[name] is not None]
    if not known:
        known = [row["equal"] / row["n"] if row["n"] else 0.0]
    return (min(*known, 1 - (row["missing_share"] or 0)), row["near_share"] or 0)
