"""Writes notes under the titles of figures of transfers (runs, mode, repetitions, flags), and labels of settings."""

from collections.abc import Callable, Iterable

from acapella.common.wording import GAP, count, digits, listed, scaled, span
from acapella.transfer.cells import DIRECTORY, GRID

from .source import NoData, Source

UNKNOWN = "window_unknown"  # flag of runs for which it is unknown whether a window limited the sender
FIRST = ("bbr", "cubic")  # algorithms that are shown first, in this order
BINARY = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
# Settings that are the same within a panel; delay and buffer are the axes of heatmaps.
FIXED = (
    "mode",
    "topology",
    "rate_bps",
    "streams",
    "size_bytes",
    "ratio",
    "delay_on",
    "loss_percent",
    "reorder_percent",
)


def scope_of(select: Callable[[list[dict]], list[dict]]) -> Callable[[Source], tuple[str, ...]]:
    """Return the function SCOPE of a figure that draws the rows of transfer_settings that ``select`` returns.

    If ``select`` raises NoData, the scope covers all rows.
    """

    def scope(source: Source) -> tuple[str, ...]:
        rows = source.rows("transfer_settings")
        try:
            drawn = select(rows)
        except NoData:
            drawn = rows
        keys = {(row["setting"], row["algorithm"]) for row in drawn}
        runs = [row for row in source.rows("transfer_cells") if (row["setting"], row["algorithm"] or "unknown") in keys]
        return (*summary(drawn, runs), *grid_notes(source.rows("transfer_files")))

    return scope


def summary(settings: list[dict], cells: list[dict]) -> tuple[str, ...]:
    """Return ``24 runs of 9 settings; mode clean; repetitions 1 to 3; ...``, and a note on captures."""
    done = [row for row in cells if row["error"] is None]
    runs = sorted({row["runs"] for row in settings if row["runs"]})
    parts = [f"{count(len(done), 'run')} of {count(len({row['setting'] for row in settings}), 'setting')}"]
    parts.append(f"mode {listed(sorted({row['mode'] or 'not stated' for row in cells}))}" if cells else "no runs")
    parts.append(f"repetitions {span(runs[0], runs[-1])}" if runs else "no complete run")
    if failed := len(cells) - len(done):
        parts.append(f"{failed} of {count(len(cells), 'run')} failed")
    parts.append(f"{count(sum(map(is_flagged, done)), 'run')} flagged")
    captured = sum(row["wire_bytes"] is not None for row in done)
    return tuple(filter(None, ("; ".join(parts), window_note(done), agreement(done, captured))))


def grid_notes(files: list[dict]) -> list[str]:
    """Return the faults of the list of planned runs: ``grid.json: 40 of 160 planned runs are missing``."""
    return [f"{GRID}: {row['reason']}" for row in files if row["file"] == f"{DIRECTORY}/{GRID}"]


def agreement(done: list[dict], captured: int) -> str:
    """Return a note on the comparison of iperf3 with captures."""
    if not captured:
        return "iperf3 alone: no run has a capture"
    differ, unexplained = (sum(row[name] for row in done) for name in ("disagreements", "unexplained"))
    return (
        f"captured: {count(captured, 'run')}; iperf3 and wire differ by more than 1{GAP}% in "
        f"{count(differ, 'value')}, of which {unexplained} unexplained"
    )


def is_flagged(row: dict) -> bool:
    """Return whether a figure marks a row of transfer_cells, transfer_settings or transfer_gain.

    UNKNOWN is not marked, because all imported runs have it. A note states the number of these runs.
    """
    if "flagged" in row:
        return row["flagged"]
    return bool({*(row.get("flags") or "").split()} - {UNKNOWN})


def window_note(done: list[dict]) -> str:
    """Return for how many runs it is unknown whether a window limited the sender, and why; empty if for none."""
    unknown = [row for row in done if row["window_limited"] is None]
    if not unknown:
        return ""
    reasons = listed(sorted({row["window_unknown"] for row in unknown}))
    return f"not known whether a window limited the sender (not marked): {count(len(unknown), 'run')} ({reasons})"


def completion_note(rows: list[dict]) -> str:
    """Return the source of completion times in rows of transfer_settings or transfer_gain; empty if unknown."""
    sources = {row["setting"]: row["completion_source"] for row in rows if row["completion_source"] is not None}
    iperf3_settings = sum(source == "iperf3" for source in sources.values())
    if not sources:
        return ""
    if not iperf3_settings:
        return "completion time: on the wire, until the receiver acknowledged all requested bytes"
    if iperf3_settings == len(sources):
        return "completion time: iperf3's, until its receiver stops (not all requested bytes are known to have arrived)"
    return (
        f"completion time: on the wire, until the receiver acknowledged all requested bytes; in {iperf3_settings} of "
        f"{count(len(sources), 'setting')} iperf3's, until its receiver stops"
    )


def algorithms(rows: Iterable[dict]) -> list[str]:
    """Return the algorithms of rows: BBR, CUBIC, then others by name."""
    names = {row["algorithm"] for row in rows}
    return [name for name in FIRST if name in names] + sorted(names - {*FIRST})


def name_of(algorithm: str) -> str:
    """Return the usual spelling of an algorithm."""
    return {"bbr": "BBR", "cubic": "CUBIC", "reno": "Reno"}.get(algorithm, algorithm)


def byte_text(size: int | None) -> str:
    """Return bytes with a binary unit if they are a multiple of it, else a decimal unit: ``100 KiB``, ``10 MB``."""
    if size is None:
        return "?"
    for unit, name in BINARY:
        if size >= unit and size % unit == 0:
            return f"{size // unit}{GAP}{name}"
    return scaled(size, "B")


def milliseconds(value: int | None) -> str:
    """Return a delay in ms, without unit."""
    return "?" if value is None else digits(value / 1e6)


def setting_text(row: dict, names: Iterable[str]) -> str:
    """Return the named settings of a row as text, such as ``40 Mbit/s, 20 streams``."""
    texts = {
        "mode": lambda value: f"mode {value}",
        "topology": str,
        "rate_bps": lambda value: f"{digits(value / 1e6)}{GAP}Mbit/s",
        "streams": lambda value: count(value, "stream"),
        "size_bytes": byte_text,
        "ratio": lambda value: f"r = {digits(value)}",
        "delay_on": lambda value: f"delay on {value}",
        "delay_ns": lambda value: f"delay {milliseconds(value)}{GAP}ms",
        "buffer_bytes": lambda value: f"buffer {byte_text(value)}",
        "loss_percent": lambda value: f"loss {digits(value)}{GAP}%",
        "reorder_percent": lambda value: f"reordering {digits(value)}{GAP}%",
    }
    return ", ".join(texts[name](row[name]) for name in names if row[name] is not None)


def varying(rows: list[dict], names: Iterable[str]) -> list[str]:
    """Return the settings among ``names`` that differ between rows."""
    return [name for name in names if len({row[name] for row in rows}) > 1]


def group_rows(rows: list[dict], names: Iterable[str]) -> dict[tuple, list[dict]]:
    """Return the rows by their values in the columns ``names``, in the order of the rows."""
    rows_by_values: dict[tuple, list[dict]] = {}
    for row in rows:
        rows_by_values.setdefault(tuple(row[name] for name in names), []).append(row)
    return rows_by_values
