"""Creates the report's section on transfers: gain, agreement of iperf3 with the wire, prediction, and unused files."""

from collections import Counter

from acapella.common.wording import digits, percent, span
from acapella.figures import registry, transfer_outcome, transfer_scope, transfer_shallow
from acapella.figures.compose import ComposedFigure
from acapella.figures.source import Source
from acapella.transfer.tables import REPEAT

from .tables import number, table

INTRODUCTION = "TCP transfers over emulated links, summarized by Acapella."
MAX_ROWS = 200  # rows of a table; all are in the CSV file
QUANTITIES = {
    "sent": "Bytes",
    "completion": "Duration",
    "throughput": "Throughput",
    "retransmits": "Retransmissions",
}
CAUSES = ("headers", "start_up", "send_buffer", "after_end", "capture_loss", "unexplained")
ENDS = {"wire": "all bytes acknowledged", "iperf3": "iperf3 stops"}  # labels of completion times, by source
OUTCOMES = {
    "bbr": "BBR",
    "cubic": "CUBIC",
    "equal": transfer_outcome.EQUAL,
    "undecided": transfer_outcome.UNDECIDED,
}
COMPARISONS = {  # outcomes without two throughputs above 0
    "bbr_zero": "CUBIC; BBR transferred nothing",
    "cubic_zero": "BBR; CUBIC transferred nothing",
    "both_zero": "neither transferred anything",
    "bbr_missing": "no run of BBR",
    "cubic_missing": "no run of CUBIC",
}


def tables(source: Source) -> list[dict]:
    """Return the tables of the section; the tables of failed runs, predictions and unused files only if not empty."""
    optional = [failed_runs(source), prediction(source), unused_files(source)]
    return [settings(source), gain(source), agreement(source), *(table_ for table_ in optional if table_["rows"])]


def omission(figure: ComposedFigure) -> str:
    """Return the subject of a figure without data and the reason: ``Flows over time for each ratio: no ...``."""
    return f"{registry.figure_module(figure.name).SUBJECT}: {figure.reason}"


def settings(source: Source) -> dict:
    """Return the results of each setting and algorithm, with their spread."""
    rows = source.rows("transfer_settings")
    varied = transfer_scope.varying(rows, (*transfer_scope.FIXED, "delay_ns", "buffer_bytes")) or ["delay_ns"]
    columns = [("Settings", False), ("Algorithm", False), ("Runs", True), ("Failed", True), ("Mbit/s", True)]
    columns += [
        ("Completion (s)", True),
        ("Until", False),
        ("Retransmitted", True),
        ("Fairness (Jain)", True),
        ("Ends apart", True),
    ]
    columns += [("Queueing delay (ms)", True), ("Retransmitted on the wire", True), ("Flags", False)]
    cells = [
        [
            transfer_scope.setting_text(row, varied),
            transfer_scope.name_of(row["algorithm"]),
            *(number(row["runs"]), number(row["runs_failed"])),
            *(
                range_of(row, "throughput_bps", 1e6),
                range_of(row, "completion_ns", 1e9),
                ENDS.get(row["completion_source"], ""),
                range_of(row, "retransmits", 1),
            ),
            *(
                three_decimals(row["jain_mean"]),
                ends_apart(row),
                scaled(row["queue_mean_ns"], 1e6),
                scaled(row["wire_retransmits_mean"], 1),
            ),
            row["flags"],
        ]
        for row in rows[:MAX_ROWS]
    ]
    note = (
        "Means of the complete runs; with several runs, the smallest and largest in brackets. Queueing delay: mean "
        "round-trip time on the wire minus the smallest one of the run on the same path. Ends apart: time from the "
        "first to the last end of a stream, as a share of the completion time. Runs with flags count."
    )
    return table("transfer_settings", "Results of transfers", note, columns, cells)


def gain(source: Source) -> dict:
    """Return the table that compares BBR with CUBIC."""
    rows = source.rows("transfer_gain")
    varied = transfer_scope.varying(rows, (*transfer_scope.FIXED, "delay_ns", "buffer_bytes")) or ["delay_ns"]
    columns = [("Settings", False), ("Buffer (BDP)", True), ("BBR (Mbit/s)", True), ("CUBIC (Mbit/s)", True)]
    columns += [
        ("Gain (%)", True),
        ("Faster", False),
        ("CUBIC \N{MINUS SIGN} BBR (s)", True),
        ("Until", False),
        ("Retransmissions, BBR/CUBIC", True),
    ]
    cells = [
        [
            transfer_scope.setting_text(row, varied),
            scaled(row["buffer_bdp"], 1),
            *(scaled(row["bbr_throughput_bps"], 1e6), scaled(row["cubic_throughput_bps"], 1e6)),
            *(signed(row["gain_percent"], 1), faster(row), signed(row["difference_ns"], 1e9)),
            ENDS.get(row["completion_source"], ""),
            scaled(row["retransmits_ratio"], 1),
        ]
        for row in rows[:MAX_ROWS]
    ]
    note = (
        "Gain: 100 (BBR \N{MINUS SIGN} CUBIC) / BBR of the mean throughputs, positive if BBR is faster. The sliced-WAN "
        "paper states that BBR often retransmits 2 to 6 times more; the title of figure transfer_retransmits shows in "
        "how many of these settings it does."
    )
    if why := transfer_shallow.explanation(source):
        note += f" {why}."
    return table("transfer_gain", "BBR against CUBIC", note, columns, cells)


def faster(row: dict) -> str:
    """Return the faster algorithm, as in figure transfer_gain, or why there is nothing to compare."""
    return COMPARISONS.get(row["comparison"]) or OUTCOMES[transfer_outcome.outcome(row)]


def agreement(source: Source) -> dict:
    """Return how often iperf3 and the wire differ, by quantity and cause."""
    rows = source.rows("transfer_disagreements")
    columns = [("Quantity", False), ("Streams", True), ("Within 1 %", True)]
    columns += [(cause.replace("_", " ").capitalize(), True) for cause in CAUSES]
    cells = []
    for quantity, label in QUANTITIES.items():
        streams = [row for row in rows if row["quantity"] == quantity]
        if streams:
            causes = Counter(row["cause"] for row in streams if row["flagged"])
            unflagged = sum(not row["flagged"] for row in streams)
            cells.append([label, number(len(streams)), number(unflagged), *(number(causes[cause]) for cause in CAUSES)])
    note = (
        "iperf3 against the capture at the sender, for every stream in a capture; other columns: causes of differences "
        "above 1 %. Send buffer: iperf3 ends when the last byte is in the sender's socket buffer. Start up: iperf3's "
        "time includes the wait from connecting to the first byte."
    )
    return table("transfer_disagreements", "iperf3 against the wire", note, columns, cells)


def prediction(source: Source) -> dict:
    """Return predicted and measured ends of the flows of runs with a ratio."""
    cells = {(row["cell_id"], row["run"]): row for row in source.rows("transfer_cells")}
    rows = [row for row in source.rows("transfer_prediction") if cells[row["cell_id"], row["run"]]["ratio"] is not None]
    columns = [
        ("Ratio", True),
        ("Algorithm", False),
        ("Run", True),
        ("Flow", True),
        ("Path", False),
        ("Bottleneck", False),
    ]
    columns += [("Predicted (s)", True), ("Measured (s)", True), ("Error", True), ("Best ratio", True)]
    rows.sort(key=lambda row: (cells[row["cell_id"], row["run"]]["ratio"], row["cell_id"], row["run"], row["flow"]))
    shown = []
    for row in rows[:MAX_ROWS]:
        cell = cells[row["cell_id"], row["run"]]
        error = "" if row["error_share"] is None else percent(abs(row["error_share"]))
        shown.append(
            [
                *(
                    digits(cell["ratio"]),
                    transfer_scope.name_of(cell["algorithm"] or "?"),
                    f"{row['run']}",
                    f"{row['flow']}",
                ),
                *(
                    row["path"],
                    row["bottleneck"] or "",
                    scaled(row["predicted_ns"], 1e9),
                    scaled(row["measured_ns"], 1e9),
                ),
                *(error, scaled(row["best_ratio"], 1)),
            ]
        )
    note = (
        "Max-min fair rates by water-filling, recomputed whenever a flow ends. Best ratio: the ratio at which all "
        "flows end earliest, with a fixed sum of both rates."
    )
    return table("transfer_prediction", "Predicted completion times", note, columns, shown)


def failed_runs(source: Source) -> dict:
    """Return the runs that failed, with their errors."""
    cells = source.rows("transfer_cells")
    rows = [row for row in cells if row["error"] is not None]
    varied = transfer_scope.varying(cells, (*transfer_scope.FIXED, "delay_ns", "buffer_bytes")) or ["delay_ns"]
    columns = [("Settings", False), ("Algorithm", False), ("Run", True), ("Cell", False), ("Error", False)]
    shown = [
        [
            transfer_scope.setting_text(row, varied),
            transfer_scope.name_of(row["algorithm"] or "unknown"),
            f"{row['run']}",
            row["cell_id"],
            row["error"],
        ]
        for row in rows[:MAX_ROWS]
    ]
    note = f"{len(rows)} of {len(cells)} runs failed; they do not count in other tables and in figures. {REPEAT}."
    return table("transfer_cells", "Failed runs", note, columns, shown)


def unused_files(source: Source) -> dict:
    """Return the files and documents that are not used, or only in part."""
    columns = [("File", False), ("Document", True), ("Reason", False)]
    rows = source.rows("transfer_files")
    cells = [[row["file"], number(row["document"]), row["reason"]] for row in rows[:MAX_ROWS]]
    return table("transfer_files", "Files not used, or only in part", "Document 0: the whole file.", columns, cells)


def range_of(row: dict, name: str, unit: float) -> str:
    """Return a mean, and its range if there are several runs."""
    mean, low, high = (row[f"{name}_{part}"] for part in ("mean", "low", "high"))
    if mean is None:
        return ""
    text = digits(mean / unit)
    return text if row["runs"] < 2 else f"{text} ({span(digits(low / unit), digits(high / unit))})"


def ends_apart(row: dict) -> str:
    """Return the mean share of the completion time between the first and the last end of a stream, and its range."""
    mean, low, high = (row[f"ends_apart_{part}"] for part in ("mean", "low", "high"))
    if mean is None or (row["streams"] or 1) < 2:
        return ""
    return percent(mean) if row["runs"] < 2 else f"{percent(mean)} ({span(percent(low), percent(high))})"


def scaled(value: float | None, unit: float) -> str:
    """Return a number in a unit; empty if it is null."""
    return "" if value is None else digits(value / unit)


def three_decimals(value: float | None) -> str:
    """Return a share with three decimals; empty if it is null."""
    return "" if value is None else f"{value:.3f}"


def signed(value: float | None, unit: float) -> str:
    """Return a number with its sign; empty if it is null."""
    if value is None:
        return ""
    text = digits(abs(value) / unit)
    return text if text == "0" else f"{'+' if value > 0 else chr(0x2212)}{text}"
