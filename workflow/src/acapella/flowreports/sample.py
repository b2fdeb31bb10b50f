"""One capture: through the program, its reports to the collector, the flows beside those of the digest."""

from dataclasses import dataclass, replace
from pathlib import Path

from acapella.common import queries
from acapella_core.errors import UserError
from acapella_core.files import atomic_path, scratch_directory

from . import compare, exact, meters
from .program import Run, run, stamps
from .receive import Received, receive
from .settings import PUBLISHED, Settings, Sketch

PARTS = (
    "compared_flows",
    "judged_windows",
    "window_reasons",
    "flow_reasons",
    "window_iats",
    "pairs",
    "accuracy",
    "seconds",
    "counts",
    "tools",
)
BY_TRIGGERS = ("pairs", "accuracy")  # parts that have a second run's rows, too
MEASURED_BY_SKETCH = ("bytes", "packets")


@dataclass(frozen=True)
class Source:
    """A capture and its digest, the name of the sample, and the length of windows of throughput.

    ``whole``: the decompressed bytes of each capture before its damage, None if it has none; empty: all are whole.
    ``limits``: on decompression, as the core takes them.
    """

    name: str
    captures: tuple[Path, ...]
    acap: Path
    flows: Path
    window_ns: int = 1_000_000_000
    whole: tuple[int | None, ...] = ()
    limits: object = None


def measure(
    source: Source, directory: Path, settings: Settings, sketches: list[Sketch], *, published: bool = False
) -> list[dict]:
    """Write PARTS as Parquet into ``directory``, with the files of the run; return the rows of accuracy.

    With ``published`` the program runs a second time, with the paper's triggers, for BY_TRIGGERS alone.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with queries.one_line(source.name):
        con = queries.connect()
        exact.make(con, source.acap, source.flows, window_ns=source.window_ns)
        ((frames,),) = con.execute("select count(*) from frames").fetchall()
        made = run(source.captures, directory, settings, source.whole, source.limits)
        if made.statistics["in"] != frames:
            raise UserError(f"{made.statistics['in']} frames, {frames} in its digest", where=source.name)
        accuracy, got = compared(con, source, settings, made, directory, series=True)
        exact.create(con, "seconds", {"of_sample": source.name})
        table(con, "counts", counted(source, settings, made, got, loss_intervals(con)))
        table(con, "tools", meters.rows(source.name, source.captures, source.flows, got.flows, source.limits))
        for part in set(PARTS) - set(BY_TRIGGERS):
            write(con, part, directory / f"{part}.parquet")
        others = [replace(settings, triggers=PUBLISHED)] if published and settings.triggers != PUBLISHED else []
        every = accuracy + add_runs(con, source, others)
        for part in BY_TRIGGERS:
            write(con, f"every_{part}", directory / f"{part}.parquet")
        table(con, "memory", memory(con, source, settings, sketches, accuracy))
        write(con, "memory", directory / "memory.parquet")
    return every


def add_runs(con, source: Source, others: list[Settings]) -> list[dict]:
    """Make every_pairs and every_accuracy: those of the connection, and of a run with each of the other settings.

    Return the rows of accuracy of the other runs. The tables of the connection are those of the last run then.
    """
    for part in BY_TRIGGERS:
        con.execute(f"create temp table every_{part} as select * from {part}")
    found = []
    for other in others:
        with scratch_directory() as scratch:
            made = run(source.captures, scratch, other, source.whole, source.limits)
            accuracy, got = compared(con, source, other, made, scratch, series=True)
            balance(made, got)
            for part in BY_TRIGGERS:
                con.execute(f"insert into every_{part} select * from {part}")
        found += accuracy
    return found


def compared(con, source: Source, settings: Settings, made: Run, directory: Path, *, series: bool):  # noqa: PLR0913
    """The rows of accuracy of a run, and what the collector wrote into ``directory``."""
    got = receive(made, directory, settings, window_ns=source.window_ns if series else None)
    compare.reported(con, got.flows, got.series, got.windows)
    con.register("report_stamps", stamps(made.reports, settings))
    compare.make(con, sample=source.name, window_ns=source.window_ns, settings=settings)
    return rows(con, "accuracy"), got


def rows(con, name: str) -> list[dict]:
    """A table's rows."""
    return con.table(name).to_arrow_table().to_pylist()


def table(con, name: str, made: list[dict]) -> None:
    """Make a temporary table of rows, as its schema says."""
    import pyarrow as pa  # noqa: PLC0415 (keeps the start of `acapella --help` quick)

    from acapella.common.tables import arrow_schema  # noqa: PLC0415

    schema = arrow_schema(f"flowreport_{name}")
    columns = [pa.array([row.get(field.name) for row in made], field.type) for field in schema]
    con.register(name, pa.table(columns, names=schema.names))


def write(con, name: str, path: Path) -> None:
    """A table as Parquet."""
    with atomic_path(path) as part:
        con.sql(f"select * from {name}").write_parquet(str(part), compression="zstd")


def memory(con, source: Source, settings: Settings, sketches: list[Sketch], own: list[dict]) -> list[dict]:
    """The rows of flowreport_memory: the run's own sketch, and those that are tried beside it.

    The tables of the connection are those of another sketch then.
    """
    flows = con.execute(queries.text(exact.STAGE, "flows_per_epoch"), {"epoch_ns": settings.epoch_ns}).fetchall()[0][0]
    found = {settings.sketch: own}
    for sketch in set(sketches) - set(found):
        other = replace(settings, sketch=sketch)
        with scratch_directory() as scratch:
            made = run(source.captures, scratch, other, source.whole, source.limits)
            found[sketch], got = compared(con, source, other, made, scratch, series=False)
            balance(made, got)
    return [
        {
            **{"sample": source.name, "rows": sketch.rows, "cells": sketch.cells, "memory_bytes": sketch.memory_bytes},
            **{"load": None if flows is None else flows / sketch.cells, **row},
        }
        for sketch, accuracy in sorted(found.items())
        for row in accuracy
        if row["measure"] in MEASURED_BY_SKETCH
    ]


def loss_intervals(con) -> dict[str, int]:
    """Return how many flows have a loss interval that covers the exact loss, and how wide these are."""
    told = con.sql(queries.text(exact.STAGE, "loss_intervals")).to_arrow_table().to_pylist()[0]
    widths = {name: round(1e6 * (told.pop(name) or 0)) for name in ("width_median", "width_p99")}
    return told | {f"{name}_ppm": value for name, value in widths.items()}


def counted(source: Source, settings: Settings, made: Run, got: Received, intervals: dict[str, int]) -> list[dict]:
    """Return the rows of flowreport_counts. Raises UserError if a report is in no count."""
    told = made.statistics
    names = ("in", "probes", "reports", "epochs")
    program = {name: told[name] for name in names}
    program |= {f"no_report.{name}": value for name, value in sorted(told["sunk"].items())}
    program |= {f"dropped.{name}": value for name, value in told["dropped"].items()}
    stages = {
        "settings": {
            **{"rows": settings.sketch.rows, "cells": settings.sketch.cells, "epoch_ns": settings.epoch_ns},
            **{"window_ns": source.window_ns, "triggers": settings.triggers, "interval_ns": settings.interval_ns},
        },
        "program": program,
        "collector": got.counters,
        "loss": intervals,
        "balance": balance(made, got),
    }
    every = [(stage, counter, value) for stage, counters in stages.items() for counter, value in counters.items()]
    return [
        {"sample": source.name, "place": place, "stage": stage, "counter": counter, "value": value}
        for place, (stage, counter, value) in enumerate(every, 1)
    ]


NOT_TAKEN = (  # reasons for which a report that was sent is in no flow; the collector's own names
    *("not_roce", "truncated", "bad_length", "bad_icrc", "bad_opcode", "bad_qp", "bad_key", "out_of_bounds"),
    *("bad_version", "psn_duplicate", "psn_reordered", "overrun", "late_epoch", "table_full"),
)
TAKEN = ("taken", "older", "repeated")  # what the flow table took


def balance(made: Run, got: Received) -> dict[str, int]:
    """What went in, was sent, and came into flows. Raises UserError where these differ by what no reason tells."""
    accepted = sum(got.counters[name] for name in TAKEN)
    refused = sum(got.counters[name] for name in NOT_TAKEN)
    if made.sent != accepted + refused:
        text = f"{made.sent} reports sent, {accepted} taken, {refused} not taken for a reason"
        raise UserError(text, where=made.reports, fix="this is a mistake of ours")
    return {
        **{"frames_in": made.statistics["in"], "reports_sent": made.sent},
        **{"reports_accepted": accepted, "reports_not_taken": refused},
    }
