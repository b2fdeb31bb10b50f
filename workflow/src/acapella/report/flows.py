"""Creates the report's section on flow reports: accuracy, other flow meters, counters, and the paper's numbers."""

import operator
from collections.abc import Callable
from dataclasses import dataclass

from acapella.common.agreement import STATEMENT, bound, verdict
from acapella.common.wording import count, percent, scaled
from acapella.figures.registry import FLOWREPORT_FIGURES, FLOWSTUDY_FIGURES
from acapella.figures.source import ALL, Source

from .tables import number, table

MEASURES = {
    "rtt_syn": "Handshake: SYN to SYN-ACK",
    "rtt_ack": "Handshake: SYN-ACK to ACK",
    "start": "Start time",
    "end": "End time",
    "bytes": "Flow size",
    "packets": "Packets",
    "packet_size": "Average packet size between two reports",
    "bytes_in_flight": "Bytes in flight at reports",
    "acknowledged_bytes": "Acknowledged bytes at reports",
    "loss": "Packet loss rate",
    "throughput_reports": "Throughput between two reports",
    "duration": "Duration",
    "retransmitted": "Share of retransmitted payload",
    "iat": "Last inter-arrival time",
    "iat_reports": "Inter-arrival time of each report",
    "throughput": "Throughput in windows",
    "throughput_known": "Throughput in windows without reason code",
}
REASON_SUBJECTS = {"report": "All flows", "loss": "Loss", "acknowledged_bytes": "Acknowledged bytes"}
WIDTH_SUFFIX = "_ppm"  # suffix of the names of counters that are widths of intervals
MAX_SAMPLES = 100  # samples that have separate rows, besides the rows of all samples together


@dataclass(frozen=True)
class FlowSections:
    """The parts of the section that a campaign has."""

    samples: bool
    study: bool

    def __bool__(self) -> bool:
        return self.samples or self.study

    @property
    def figures(self) -> tuple[str, ...]:
        """Return the names of the figures."""
        return (*(FLOWREPORT_FIGURES if self.samples else ()), *(FLOWSTUDY_FIGURES if self.study else ()))


NO_SECTIONS = FlowSections(samples=False, study=False)


def tables(source: Source, parts: FlowSections, *, papers: bool) -> list[dict]:
    """Return the tables of the section. ``papers`` adds the numbers printed in the P4/RDMA paper."""
    if not parts:
        return []
    return [
        *([accuracy(source), flow_reasons(source)] if parts.samples else []),
        *([window_reasons(source), tools(source), counts(source)] if parts.samples else []),
        *([published(source)] if papers else []),
    ]


def accuracy(source: Source) -> dict:
    """Return the table on agreement with the digest; the rows of all samples together come first."""
    rows = source.rows("flowreport_accuracy")
    names = [ALL, *sorted({row["sample"] for row in rows} - {ALL})]
    names = names if len(names) > 2 else names[:1]  # with a single sample, the rows of `all` are the same
    order = {name: index for index, name in enumerate(names[: MAX_SAMPLES + 1])}
    drawn = [row for row in rows if row["sample"] in order]
    drawn.sort(key=lambda row: (order[row["sample"]], row["triggers"], list(MEASURES).index(row["measure"])))
    columns = [
        ("Samples", False),
        ("Triggers", False),
        ("Measure", False),
        ("Verdict", False),
        ("R\u00b2", True),
        ("log R\u00b2", True),
        ("n", True),
        ("Equal", True),
        ("Within 1 %", True),
        ("Missing", True),
    ]
    columns += [("Outside", True), ("Extra", True), ("Ambiguous", True), ("Error, median", True), ("Error, p99", True)]
    columns += [("Error, largest", True), ("Contain exact", True), ("Width, median", True)]
    columns += [("Width, p99", True), ("Bound", False)]
    cells = [
        [
            *(row["sample"], row["triggers"], MEASURES[row["measure"]], verdict(row)),
            *(r2_text(row["r2"]), r2_text(row["r2_log"])),
            number(row["n"]),
            *(percent_or_empty(row[name]) for name in ("equal_share", "near_share")),
            missing(row),
            *(number(row[name]) for name in ("outside", "extra", "ambiguous")),
            *(percent_or_empty(row[name]) for name in ("error_median", "error_p99", "error_largest")),
            *(percent_or_empty(row[name]) for name in ("covered_share", "width_median", "width_p99")),
            bound(row["measure"]),
        ]
        for row in drawn
    ]
    note = (
        "Triggers: packets that cause a report; published are those of the P4/RDMA paper, in a separate run. "
        "Equal and within 1 %: shares of the n values that both sides have. Errors: |measured - exact| / exact, of "
        "exact values above 0; for loss and retransmitted payload, of the lower bound. Missing: exact values that no "
        "report contains; outside: further ones, in tunnels that the program does not parse; extra: measured values "
        "that the digest does not contain, such as those of the outer flow of such a tunnel; ambiguous: values that "
        "are not judged, because several packets have the time of a report and it does not show which of them it "
        "covers. Bound: limit for the values that both sides have. Log R\u00b2: of logarithms; p99: 99th percentile; "
        "contain exact: share of intervals that contain the exact value. " + STATEMENT
    )
    return table("flowreport_accuracy", "Accuracy of flow reports", note, columns, cells)


def missing(row: dict) -> str:
    """Return the number of exact values that no report contains, with its share in percent if there are any."""
    text = number(row["missing"])
    return f"{text} ({percent(row['missing_share'])})" if row["missing"] else text


def percent_or_empty(value: float | None) -> str:
    """Return a share in percent; empty if there is none."""
    return "" if value is None else percent(value)


def r2_text(value: float | None) -> str:
    """Return a number with six decimals; "1" only if it is exactly 1."""
    if value is None:
        return "undefined"
    text = f"{value:.6f}"
    return "1" if value == 1 else "0.999999+" if text == "1.000000" else text


def window_reasons(source: Source) -> dict:
    """Return the table of throughput windows by the reason why a value may be wrong by more than 10 %."""
    sums_by_reason: dict[str, list[int]] = {}
    for row in source.rows("flowreport_window_reasons"):
        sums = sums_by_reason.setdefault(row["reason"], dict.fromkeys(("windows", "within", "bounded", "held"), 0))
        for name in sums:
            sums[name] += row[name]
    total = sum(sums["windows"] for sums in sums_by_reason.values())
    rows = sorted(sums_by_reason.items(), key=lambda item: (item[0] != "none", -item[1]["windows"]))
    cells = [
        [
            *(reason, number(sums["windows"]), percent(sums["windows"] / total), number(sums["within"])),
            *(percent(sums["within"] / sums["windows"]), number(sums["bounded"]), number(sums["held"])),
        ]
        for reason, sums in rows
    ]
    columns = [("Reason", False), ("Windows", True), ("Share of all windows", True), ("Windows within 10 %", True)]
    columns += [("Within 10 %, share of the reason", True)]
    columns += [("Windows with bounds", True), ("Windows whose bounds hold", True)]
    note = (
        "Throughput windows of the flows of all samples. Within 10 %: the measured value differs from the exact one by "
        "at most 10 %. Reason none: according to the reports, the value cannot differ by more than 10 %. Windows whose "
        "bounds hold: those with bounds on their bytes that contain the exact value. Reasons: straddle, no_slot: "
        "packets of a report may be on both sides of a window's edge (flow with a slot, flow without); time_reversal: "
        "frames of later windows precede the window in the file (samples: time_reversals of capture_quality); "
        "sketch_load: flows that share their cells in all rows of the sketch; unreported: no report contains packets "
        "of the window; no_report: no report contains the flow; outside: the program does not parse the flow; extra: "
        "the digest does not contain the flow."
    )
    return table("flowreport_window_reasons", "Windows of throughput", note, columns, cells)


def flow_reasons(source: Source) -> dict:
    """Return the table of flows by the reason why measured values do not cover the whole flow."""
    flows_by_reason: dict[tuple, int] = {}
    totals: dict[str, int] = {}
    for row in source.rows("flowreport_flow_reasons"):
        key = (row["subject"], row["reason"])
        flows_by_reason[key] = flows_by_reason.get(key, 0) + row["flows"]
        totals[row["subject"]] = totals.get(row["subject"], 0) + row["flows"]
    rows = sorted(
        flows_by_reason.items(), key=lambda item: (list(totals).index(item[0][0]), item[0][1] != "none", -item[1])
    )
    cells = [
        [REASON_SUBJECTS[subject], reason, number(flows), percent(flows / totals[subject])]
        for (subject, reason), flows in rows
    ]
    columns = [("Values of", False), ("Reason", False), ("Flows", True), ("Share of these flows", True)]
    note = (
        "Flows of all samples, by the reason why measured values do not cover the whole flow. Loss and "
        "acknowledged bytes: flows with an exact value and a report. Reasons: earlier_report: packets or "
        "acknowledgments arrived after the newest report; inter-arrival times are compared at the time of that report; "
        "partly_followed: the data plane had no slot for a part of the flow's packets; no_slot: for any of them; "
        "no_acknowledgment: no report contains an acknowledgment; no_report: no report contains the flow; outside: the "
        "program does not parse the flow; extra: the digest does not contain the flow."
    )
    return table("flowreport_flow_reasons", "Flows and their reports", note, columns, cells)


def tools(source: Source) -> dict:
    """Return the table of the measurements of other flow meters in the same captures."""
    columns = [("Sample", False), ("Tool", False), ("Version", False), ("Flows", True), ("In common", True)]
    columns += [("Flows with equal packets", True), ("Flows with equal bytes", True), ("IP packets", True)]
    columns += [("IP bytes", True), ("Packets missed", True)]
    cells = [
        [row["sample"], row["tool"], row["version"] or "", row["skipped"], *[""] * 6]
        if row["skipped"]
        else [
            *(row["sample"], row["tool"], row["version"] or ""),
            *(number(row[name]) for name in ("flows", "common_flows", "equal_packets", "equal_bytes", "packets")),
            *(scaled(row["bytes"], "B"), "" if row["missed_share"] is None else percent(row["missed_share"])),
        ]
        for row in sorted(source.rows("flowreport_tools"), key=lambda row: (row["sample"], row["place"]))
    ]
    note = (
        "All tools read the same file, without losses; for table III of the P4/RDMA paper, traces were replayed in "
        "real time. Directed flows by addresses, protocol and ports, without tags. In common, equal: compared with "
        "flows of the digest. Packets missed: 1 - IP packets / those of the digest, negative if a tool counts more. A "
        "tool misses packets inside headers that it does not parse."
    )
    return table("flowreport_tools", "Other flow meters", note, columns, cells)


def counts(source: Source) -> dict:
    """Return the table of the balance of all samples and of all counters above 0."""
    sums: dict[tuple, int] = {}
    for row in sorted(source.rows("flowreport_counts"), key=lambda row: row["place"]):
        if row["stage"] != "settings":
            key = (row["stage"], row["counter"])
            sums[key] = sum_or_max(row["counter"])(sums.get(key, 0), row["value"])
    rows = [(*key, value) for key, value in sums.items() if value or key[0] == "balance"]
    samples = len({row["sample"] for row in source.rows("flowreport_counts")})
    columns = [("Stage", False), ("Counter", False), ("Value", True)]
    cells = [[stage, counter, number(value)] for stage, counter, value in rows]
    note = (
        f"Sums of {count(samples, 'sample')}; counters that are 0 are omitted. Numbers of frames (in, no_report), of "
        "reports, of flows (flows; stage loss: TCP flows with SYN, FIN or data, those whose interval of missing bytes "
        "contains the exact number: covered, and those whose interval is wider than 0: uncertain), of resets (epochs). "
        "Widths are the largest of all samples, in millionths (ppm) of a flow's sequence numbers."
    )
    return table("flowreport_counts", "Counters of frames and reports", note, columns, cells)


def sum_or_max(counter: str) -> Callable[[int, int], int]:
    """Return the function that combines a counter of two samples: the maximum for widths, the sum for all others."""
    return max if counter.endswith(WIDTH_SUFFIX) else operator.add


def published(source: Source) -> dict:
    """Return the table that compares the paper's numbers with those of this campaign."""
    columns = [
        ("Where", False),
        ("What", False),
        ("Printed", False),
        ("Ours", False),
        ("Verdict", False),
        ("Why", False),
    ]
    cells = [
        [row["where"], row["what"], row["printed"], row["ours"] or "", row["verdict"], row["reason"] or ""]
        for row in sorted(source.rows("flowreport_published"), key=lambda row: row["row"])
    ]
    note = "Numbers of the P4/RDMA paper and of this campaign, with reasons for differences."
    return table("flowreport_published", "The paper's numbers and those of this campaign", note, columns, cells)
