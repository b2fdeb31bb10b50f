"""Figure transfer_completion of the report, described by ABOUT."""

from acapella.common.wording import GAP, count, digits

from . import transfer_heatmap, transfer_outcome, transfer_scope
from .compose import Figure
from .source import Source

SUBJECT = "Completion time of transfers"
ABOUT = "Completion time of BBR and CUBIC against buffer and delay (sliced-WAN paper, figure 4, right)."
TABLE = "transfer_settings"
COLUMNS = (
    *("algorithm", "delay_ns", "buffer_bytes", "completion_ns_mean", "completion_ns_stddev", "completion_source"),
    *("completion_ns_low", "completion_ns_high", "runs", "flags"),
)
RECEIVED_SHARE = 0.99  # of size_bytes; a note counts the runs with iperf3 times whose receiver read less
RECEIVED_TEXT = f"{RECEIVED_SHARE * 100:.0f}{GAP}%"
SCOPE = transfer_scope.scope_of(transfer_heatmap.heat_rows)


def draw(source: Source) -> Figure:
    """Draw a heatmap per algorithm."""
    rows = source.rows(TABLE)
    order = transfer_scope.algorithms(rows)
    rows.sort(key=lambda row: (row["setting"], order.index(row["algorithm"])))
    measure = transfer_heatmap.Measure(
        lambda row: None if row["completion_ns_mean"] is None else row["completion_ns_mean"] / 1e9,
        lambda row: text(row["completion_ns_mean"]),
        "mean completion (s)",
        spread=lambda row: transfer_heatmap.deviation(
            row["completion_ns_stddev"] and row["completion_ns_stddev"] / 1e9
        ),
    )
    chart, notes = transfer_heatmap.heatmap(rows, measure, lambda row: transfer_scope.name_of(row["algorithm"]))
    drawn = transfer_heatmap.heat_rows(rows)
    keys = {(row["setting"], row["algorithm"]) for row in drawn if row["completion_source"] == "iperf3"}
    cells = [row for row in source.rows("transfer_cells") if (row["setting"], row["algorithm"] or "unknown") in keys]
    incomplete_runs, known_runs = incomplete(cells, source.rows("transfer_flows"))
    time_notes = filter(None, (transfer_scope.completion_note(drawn), received_note(incomplete_runs, known_runs)))
    return Figure(title(drawn, incomplete_runs, known_runs), chart, (*time_notes, *transfer_heatmap.KEY, *notes))


def incomplete(cells: list[dict], flows: list[dict]) -> tuple[int, int]:
    """Return the number of runs whose receiver read less than RECEIVED_SHARE, and of runs for which this is known."""
    flows_by_run = transfer_scope.group_rows(flows, ("cell_id", "run"))
    known_runs = incomplete_runs = 0
    for cell in cells:
        streams = flows_by_run.get((cell["cell_id"], cell["run"]), [])
        if cell["error"] is not None or not cell["size_bytes"] or any(row["received_bytes"] is None for row in streams):
            continue
        several = len({row["path"] for row in streams}) > 1  # then, each flow sends size_bytes
        requested = cell["size_bytes"] * (len(streams) if several else 1)
        known_runs += 1
        incomplete_runs += sum(row["received_bytes"] for row in streams) < RECEIVED_SHARE * requested
    return incomplete_runs, known_runs


def received_note(incomplete_runs: int, known_runs: int) -> str:
    """Return a note on bytes left in the send buffer, for runs with iperf3 times; empty if there are none."""
    text = "bytes in the send buffer when iperf3 stops do not count"
    runs = f"{incomplete_runs} of {count(known_runs, 'run')}"
    return f"{text}: less than {RECEIVED_TEXT} of size_bytes received in {runs}" if known_runs else ""


def title(rows: list[dict], incomplete_runs: int, known_runs: int) -> str:
    """Return the title: in how many settings each algorithm completes first, unless runs received too few bytes."""
    if incomplete_runs:
        runs = f"{incomplete_runs} of {count(known_runs, 'run')}"
        return f"Completion times of unequal transfers: {runs} received less than {RECEIVED_TEXT}"
    settings: dict[int, dict[str, dict]] = {}
    for row in rows:
        if row["completion_ns_mean"] is not None:
            settings.setdefault(row["setting"], {})[row["algorithm"]] = row
    compared = [times for times in settings.values() if {*transfer_scope.FIRST} <= times.keys()]
    if not compared:
        return "Completion time"
    outcomes = [transfer_outcome.first(times["bbr"], times["cubic"]) for times in compared]
    return transfer_outcome.summary("completes first", outcomes, len(compared))


def text(ns: float | None) -> str:
    """Return the text of a cell."""
    return transfer_heatmap.MISSING if ns is None else digits(ns / 1e9)
