"""Measures one sample: runs the program, collects its reports, and compares the flows with those of the digest."""

from dataclasses import dataclass, replace
from pathlib import Path

from acapella.campaign.reported import PARTS
from acapella.common import queries
from acapella_core.errors import UserError
from acapella_core.files import atomic_path, scratch_directory

from . import compare, exact, meters
from .program import Run, report_times, run
from .receive import Received, receive
from .settings import PUBLISHED, Settings, Sketch

BY_TRIGGERS = ("pairs", "accuracy")  # parts that also contain rows of a second run
SKETCH_MEASURES = ("bytes", "packets")


@dataclass(frozen=True)
class Source:
    """A sample's captures and digest, its name, and the window length for throughput.

    ``undamaged``: the decompressed bytes of each capture before its damage, None if it is intact; empty if all are
    intact. ``limits``: decompression limits of the core.
    """

    name: str
    captures: tuple[Path, ...]
    acap: Path
    flows: Path
    window_ns: int = 1_000_000_000
    undamaged: tuple[int | None, ...] = ()
    limits: object = None


def measure(
    source: Source, directory: Path, settings: Settings, sketches: list[Sketch], *, published: bool = False
) -> list[dict]:
    """Write PARTS as Parquet to ``directory``, with the files of the run; return the rows of accuracy.

    With ``published`` the program runs a second time, with the paper's triggers, only for BY_TRIGGERS.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with queries.one_line(source.name):
        con = queries.connect()
        exact.make(con, source.acap, source.flows, window_ns=source.window_ns)
        ((frames,),) = con.execute("select count(*) from frames").fetchall()
        program_run = run(source.captures, directory, settings, source.undamaged, source.limits)
        if program_run.statistics["in"] != frames:
            raise UserError(
                f"{program_run.statistics['in']} frames read, but {frames} in its digest", where=source.name
            )
        accuracy, received = receive_and_compare(con, source, settings, program_run, directory, series=True)
        exact.create(con, "seconds", {"of_sample": source.name})
        create_table(con, "counts", count_rows(source, settings, program_run, received, loss_intervals(con)))
        create_table(
            con, "tools", meters.rows(source.name, source.captures, source.flows, received.flows, source.limits)
        )
        for part in set(PARTS) - set(BY_TRIGGERS):
            write(con, part, directory / f"{part}.parquet")
        other_settings = [replace(settings, triggers=PUBLISHED)] if published and settings.triggers != PUBLISHED else []
        all_rows = accuracy + add_runs(con, source, other_settings)
        for part in BY_TRIGGERS:
            write(con, f"all_{part}", directory / f"{part}.parquet")
        create_table(con, "memory", memory_rows(con, source, settings, sketches, accuracy))
        write(con, "memory", directory / "memory.parquet")
    return all_rows


def add_runs(con, source: Source, other_settings: list[Settings]) -> list[dict]:
    """Create all_pairs and all_accuracy, with rows of the current run and of a run with each of the other settings.

    Return the rows of accuracy of these other runs. Afterwards, the connection contains the tables of the last run.
    """
    for part in BY_TRIGGERS:
        con.execute(f"create temp table all_{part} as select * from {part}")
    accuracy_rows = []
    for other in other_settings:
        with scratch_directory() as scratch:
            program_run = run(source.captures, scratch, other, source.undamaged, source.limits)
            accuracy, received = receive_and_compare(con, source, other, program_run, scratch, series=True)
            balance(program_run, received)
            for part in BY_TRIGGERS:
                con.execute(f"insert into all_{part} select * from {part}")
        accuracy_rows += accuracy
    return accuracy_rows


def receive_and_compare(con, source: Source, settings: Settings, program_run: Run, directory: Path, *, series: bool):  # noqa: PLR0913
    """Receive and compare the reports of a run; return the rows of accuracy, and the collector's output."""
    received = receive(program_run, directory, settings, window_ns=source.window_ns if series else None)
    compare.create_views(con, received.flows, received.series, received.windows)
    con.register("report_stamps", report_times(program_run.reports, settings))
    compare.make(con, sample=source.name, window_ns=source.window_ns, settings=settings)
    return rows(con, "accuracy"), received


def rows(con, name: str) -> list[dict]:
    """Return the rows of a table."""
    return con.table(name).to_arrow_table().to_pylist()


def create_table(con, name: str, records: list[dict]) -> None:
    """Create a temporary table from rows, with the types of its schema."""
    import pyarrow as pa  # noqa: PLC0415 (keeps `acapella --help` fast)

    from acapella.common.tables import arrow_schema  # noqa: PLC0415

    schema = arrow_schema(f"flowreport_{name}")
    columns = [pa.array([row.get(field.name) for row in records], field.type) for field in schema]
    con.register(name, pa.table(columns, names=schema.names))


def write(con, name: str, path: Path) -> None:
    """Write a table as Parquet."""
    with atomic_path(path) as part:
        con.sql(f"select * from {name}").write_parquet(str(part), compression="zstd")


def memory_rows(
    con, source: Source, settings: Settings, sketches: list[Sketch], accuracy_of_run: list[dict]
) -> list[dict]:
    """Return the rows of flowreport_memory: for the run's sketch, and for other sketch sizes.

    Afterwards, the connection contains the tables of the last sketch.
    """
    flows = con.execute(queries.text(exact.STAGE, "flows_per_epoch"), {"epoch_ns": settings.epoch_ns}).fetchall()[0][0]
    accuracy_by_sketch = {settings.sketch: accuracy_of_run}
    for sketch in set(sketches) - set(accuracy_by_sketch):
        other = replace(settings, sketch=sketch)
        with scratch_directory() as scratch:
            program_run = run(source.captures, scratch, other, source.undamaged, source.limits)
            accuracy_by_sketch[sketch], received = receive_and_compare(
                con, source, other, program_run, scratch, series=False
            )
            balance(program_run, received)
    return [
        {
            **{"sample": source.name, "rows": sketch.rows, "cells": sketch.cells, "memory_bytes": sketch.memory_bytes},
            **{"load": None if flows is None else flows / sketch.cells, **row},
        }
        for sketch, accuracy in sorted(accuracy_by_sketch.items())
        for row in accuracy
        if row["measure"] in SKETCH_MEASURES
    ]


def loss_intervals(con) -> dict[str, int]:
    """Return the counters of loss intervals: numbers of flows, and widths in parts per million."""
    counters = con.sql(queries.text(exact.STAGE, "loss_intervals")).to_arrow_table().to_pylist()[0]
    widths = {name: round(1e6 * (counters.pop(name) or 0)) for name in ("width_median", "width_p99")}
    return counters | {f"{name}_ppm": value for name, value in widths.items()}


def count_rows(
    source: Source, settings: Settings, program_run: Run, received: Received, intervals: dict[str, int]
) -> list[dict]:
    """Return the rows of flowreport_counts. Raises UserError if a report is missing from the counts."""
    counters = program_run.statistics
    names = ("in", "probes", "reports", "epochs")
    program = {name: counters[name] for name in names}
    program |= {f"no_report.{name}": value for name, value in sorted(counters["sunk"].items())}
    program |= {f"dropped.{name}": value for name, value in counters["dropped"].items()}
    stages = {
        "settings": {
            **{"rows": settings.sketch.rows, "cells": settings.sketch.cells, "epoch_ns": settings.epoch_ns},
            **{"window_ns": source.window_ns, "triggers": settings.triggers, "interval_ns": settings.interval_ns},
        },
        "program": program,
        "collector": received.counters,
        "loss": intervals,
        "balance": balance(program_run, received),
    }
    all_rows = [(stage, counter, value) for stage, counters in stages.items() for counter, value in counters.items()]
    return [
        {"sample": source.name, "place": number, "stage": stage, "counter": counter, "value": value}
        for number, (stage, counter, value) in enumerate(all_rows, 1)
    ]


REJECT_COUNTERS = (  # the collector's counters of reports that are in no flow
    *("not_roce", "truncated", "bad_length", "bad_icrc", "bad_opcode", "bad_qp", "bad_key", "out_of_bounds"),
    *("bad_version", "psn_duplicate", "psn_reordered", "overrun", "late_epoch", "table_full"),
)
ACCEPT_COUNTERS = ("taken", "older", "repeated")  # reports that reached the flow table


def balance(program_run: Run, received: Received) -> dict[str, int]:
    """Return counts of frames, reports sent and reports accepted. Raises UserError if reports are unaccounted for."""
    accepted = sum(received.counters[name] for name in ACCEPT_COUNTERS)
    rejected = sum(received.counters[name] for name in REJECT_COUNTERS)
    if program_run.sent != accepted + rejected:
        text = f"{program_run.sent} reports sent, {accepted} accepted, {rejected} rejected"
        raise UserError(text, where=program_run.reports, fix="report this defect")
    return {
        **{"frames_in": program_run.statistics["in"], "reports_sent": program_run.sent},
        **{"reports_accepted": accepted, "reports_not_taken": rejected},
    }
