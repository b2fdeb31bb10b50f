"""Creates the report's section on the storage study: write latency and loss (Patchwork, figure 14, Tables 1 and 2)."""

import csv
from pathlib import Path

from acapella.common.wording import nanoseconds, percent
from acapella.figures.source import Source
from acapella.figures.storage_latency import condition, condition_text

from .tables import number, table

PAPER = Path(__file__).resolve().parents[3] / "conformance" / "patchwork_writer.csv"
MAX_LOSS_SHARE = 0.01  # a rate with at most this share of lost frames is sustained; the paper's losses are below it


def tables(source: Source) -> list[dict]:
    """Return the tables of the section."""
    return [rates(source), runs(source)]


def rates(source: Source) -> dict:
    """Return a table laid out as the paper's Tables 1 and 2, with the paper's numbers for comparison."""
    runs_by_frames: dict[tuple, list[dict]] = {}
    for row in source.rows("storage_rates"):
        runs_by_frames.setdefault((-row["snaplen"], row["writer"], -row["frame_bytes"]), []).append(row)
    printed = paper_rows()
    columns = [("Kept (B)", True), ("Frame size (B)", True), ("Writer", False), ("Rate (Gbit/s)", True)]
    columns += [("Cores", True), ("Loss (%)", True), ("Written without a limit (Gbit/s)", True)]
    columns += [("Paper: rate (Gbit/s)", True), ("Paper: cores", True), ("Paper: loss (%)", True)]
    cells = []
    for key in sorted(runs_by_frames):
        best, unlimited = (
            sustained_run(runs_by_frames[key]),
            [row for row in runs_by_frames[key] if row["wanted_fps"] is None],
        )
        paper = printed.get((best["snaplen"], best["frame_bytes"]), {})
        cells.append(
            [
                *(number(best["snaplen"]), number(best["frame_bytes"]), best["writer"], gigabits(best)),
                *(number(best["cores"]), loss_percent(best), written_rate(unlimited)),
                *(paper.get(name, "") for name in ("rate_gbps", "cores", "loss_percent")),
            ]
        )
    note = (
        "The DPDK writer with generated frames, on one core. Rate: the highest that lost at most "
        f"{percent(MAX_LOSS_SHARE)} of the frames, or else the one with the lowest loss; without a limit: frames "
        "written if the generator sends as fast as it can. Rates are without FCS, preamble and gap. Paper: Tables 1 "
        "and 2, from a 100 Gbit/s NIC, on several cores."
    )
    return table(
        "storage_rates", "Rates of the writer and their loss (Patchwork, Tables 1 and 2)", note, columns, cells
    )


def sustained_run(runs_: list[dict]) -> dict:
    """Return the run with the highest rate that loses at most MAX_LOSS_SHARE.

    If there is none, return the run with the lowest loss, or any run if no loss is known.
    """
    with_loss = [row for row in runs_ if row["lost_share"] is not None]
    sustained = [row for row in with_loss if row["lost_share"] <= MAX_LOSS_SHARE]
    if sustained:
        return max(sustained, key=lambda row: row["rate_bps"])
    return min(with_loss, key=lambda row: row["lost_share"]) if with_loss else runs_[0]


def gigabits(row: dict) -> str:
    """Return a rate in Gbit/s as text."""
    return "" if row["rate_bps"] is None else f"{row['rate_bps'] / 1e9:.2f}"


def written_rate(unlimited: list[dict]) -> str:
    """Return the rate of written frames of the run without a rate limit, in Gbit/s."""
    row = next((row for row in unlimited if row["whole_ns"]), None)
    return f"{8 * row['frame_bytes'] * row['written'] / row['whole_ns']:.2f}" if row else ""


def loss_percent(row: dict) -> str:
    """Return the share of lost frames in percent, without the percent sign."""
    return "" if row["lost_share"] is None else f"{100 * row['lost_share']:.2f}"


def paper_rows() -> dict[tuple[int, int], dict[str, str]]:
    """Return the paper's rows by snap length and frame size."""
    with PAPER.open(encoding="utf-8", newline="") as stream:
        return {(int(row["snaplen"]), int(row["frame_bytes"])): row for row in csv.DictReader(stream)}


def runs(source: Source) -> dict:
    """Return the runs of figure 14."""
    columns = [("Condition", False), ("Call", False), ("Latency, summed", True), ("Longest", True), ("Calls", True)]
    columns += [("Long calls", True), ("Long from", True), ("Latency in long calls", True)]
    columns += [("Dirty memory, maximum", True), ("Highest threshold reached", False), ("Frames lost", True)]
    cells = [
        [
            *(condition_text(condition(row)), row["call"], nanoseconds(row["latency_ns"])),
            "" if row["longest_ns"] is None else nanoseconds(row["longest_ns"]),
            *(number(row["calls"]), number(row["long_calls"]), nanoseconds(row["long_from_ns"])),
            percent(row["long_upper_ns"] / row["latency_upper_ns"]) if row["latency_upper_ns"] else "",
            *(f"{row['dirty_most_percent']:.1f} %", row["crossed"]),
            "" if row["lost_share"] is None else percent(row["lost_share"]),
        ]
        for row in source.rows("storage_runs")
    ]
    note = (
        "writev blocks the capture during its latency; io_uring does not, and its writes overlap: the two are not "
        "comparable. Long calls: above the bin (a power of two) that contains the 95 % quantile of a run's calls."
    )
    return table("storage_runs", "Writes while the page cache fills", note, columns, cells)
