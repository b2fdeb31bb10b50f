"""Reads the runs of a campaign: cell.json with its iperf3 files, and imported iperf3 files."""

import glob
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from acapella_core import schemas
from acapella_core.errors import UserError
from acapella_core.names import shown
from acapella_core.validation import first_error_of, load_jsonschema

from . import documents, iperf3, settings

DIRECTORY = "transfers"
CELL = "cell.json"
GRID = "grid.json"


@dataclass
class Process:
    """One iperf3 process of a run: its test, and its entry in cell.json."""

    flow: int
    file: str
    test: iperf3.Test
    entry: dict = field(default_factory=dict)


@dataclass
class Run:
    """One run of a cell: its settings, its iperf3 processes, and its directory unless it is imported."""

    cell_id: str
    run: int
    values: dict  # columns of settings.SETTINGS, and rtt_ns
    processes: list[Process] = field(default_factory=list)
    cell: dict = field(default_factory=dict)  # cell.json
    directory: Path | None = None
    error: str | None = None


@dataclass
class Fault:
    """A file or document that is not used or is used only in part, or a failed or missing run, and the reason."""

    cell_id: str | None
    run: int | None
    file: str
    document: int
    reason: str


@dataclass(frozen=True)
class ImportedFiles:
    """Glob patterns of imported files, and the source of their settings."""

    data: tuple[str, ...] = ()
    sheet: Path | None = None
    pattern: re.Pattern | None = None


def own_runs(campaign: Path, faults: list[Fault]) -> Iterator[Run]:
    """Yield the runs below CAMPAIGN/transfers/, in the order of their names. Missing runs of the grid are a fault.

    A directory that is being written has a name that begins with a dot.
    """
    validator = load_jsonschema().Draft202012Validator(schemas.json_schema("transfer_cell"))
    planned = planned_runs(campaign / DIRECTORY / GRID, faults)
    missing = set(planned or ())
    for path in sorted((campaign / DIRECTORY).glob(f"[!.]*/{CELL}")):
        relative = path.relative_to(campaign).as_posix()
        try:
            cell = valid_cell(path, validator)
        except ValueError as error:
            faults.append(Fault(None, None, relative, 1, str(error)))
            continue
        key = (cell["cell_id"], cell["run"])
        if planned is None or key in planned:
            missing.discard(key)
            yield run_of(cell, path.parent, faults)
    if planned and missing:
        reason = f"{len(missing)} of {len(planned)} planned runs are missing"
        faults.insert(0, Fault(None, None, f"{DIRECTORY}/{GRID}", 1, reason))


def planned_runs(path: Path, faults: list[Fault]) -> set[tuple[str, int]] | None:
    """Return the runs listed in grid.json; None without a valid file. All other runs are of an earlier grid."""
    if not path.exists():
        return None
    read = documents.read(path)
    try:
        ((_, grid),) = read.found
        if grid["version"] == 1:
            return {(cell["cell_id"], cell["run"]) for cell in grid["cells"]}
    except (ValueError, LookupError, TypeError):
        pass
    text = "not a list of cells in the format of this version: all cells are read"
    faults.append(Fault(None, None, f"{DIRECTORY}/{GRID}", 1, text))
    return None


def valid_cell(path: Path, validator) -> dict:
    """Return a valid cell.json. Raises ValueError with a message of one line."""
    read = documents.read(path)
    if read.faults or len(read.found) != 1:
        raise ValueError(read.faults[0][1] if read.faults else f"{len(read.found)} JSON documents: expected one")
    cell = read.found[0][1]
    if cell.get("version") != 1:
        raise ValueError("not version 1: use the version of acapella that wrote it")
    if error := first_error_of(validator, cell):
        raise ValueError(error)
    return cell


def run_of(cell: dict, directory: Path, faults: list[Fault]) -> Run:
    """Return a run with those of its iperf3 files that contain a complete test."""
    run = Run(cell["cell_id"], cell["run"], settings.of_cell(cell), cell=cell, directory=directory)
    run.error = cell.get("error")
    run.values["rtt_ns"] = (cell.get("measured") or {}).get("rtt_ns")
    for entry in sorted(cell["flows"], key=lambda flow: flow["flow"]):
        name = f"{DIRECTORY}/{directory.name}/{entry['iperf3']}"
        tests = tests_of(directory / entry["iperf3"], name, (run.cell_id, run.run), faults)
        if len(tests) > 1:
            faults.append(Fault(run.cell_id, run.run, name, tests[1][0], "more than one test: the first one is used"))
        if tests:
            run.processes.append(Process(entry["flow"], name, tests[0][1], entry))
    if run.error is not None:
        faults.append(
            Fault(run.cell_id, run.run, f"{DIRECTORY}/{directory.name}/{CELL}", 1, f"run failed: {run.error}")
        )
    elif len(run.processes) < max(1, len(cell["flows"])):
        run.error = f"{len(run.processes)} of {len(cell['flows'])} iperf3 files are usable"
    return run


def tests_of(path: Path, name: str, run_key: tuple, faults: list[Fault]) -> list[tuple[int, iperf3.Test]]:
    """Return the tests of a file with their document numbers; add a fault for each document that is not a test."""
    read = documents.read(path)
    faults += [Fault(*run_key, name, document_number, reason) for document_number, reason in read.faults]
    found = []
    for document_number, document in read.found:
        try:
            found.append((document_number, iperf3.parse(document)))
        except iperf3.Rejected as error:
            faults.append(Fault(*run_key, name, document_number, str(error)))
    return found


def imported_runs(imported: ImportedFiles, faults: list[Fault]) -> Iterator[Run]:
    """Yield a run for each test in imported files, in the order of their paths.

    Runs with the same settings are numbered from 0, unless the sheet or the file name contains the number.
    """
    listed = settings.sheet(imported.sheet) if imported.sheet else {}
    matching = [
        Path(found)
        for pattern in imported.data
        for found in glob.glob(pattern, recursive=True)  # noqa: PTH207 - Path.glob rejects absolute patterns
    ]
    # a file that matches a pattern and is in the sheet counts once, even if only one of its paths is absolute
    by_absolute_path = {os.path.abspath(path): path for path in [*matching, *listed]}  # noqa: PTH100 - removes ..
    paths = [by_absolute_path[absolute] for absolute in sorted(by_absolute_path, key=Path)]
    if imported.data and not paths:
        raise UserError(f"transfer.data: no file matches {', '.join(imported.data)}")
    numbers: dict[tuple, int] = {}
    for path in paths:
        name = shown(path.as_posix().encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
        values = dict(listed.get(path, {}))
        try:
            if imported.pattern and path not in listed:
                values = settings.of_name(path.name, imported.pattern)
            elif imported.sheet and path not in listed:
                raise ValueError(f"not in the sheet {imported.sheet.name}")
        except ValueError as error:
            faults.append(Fault(None, None, name, 0, str(error)))
            continue
        for document_number, test in tests_of(path, name, (None, None), faults):
            yield imported_run(name, document_number, test, values, numbers)


def imported_run(name: str, document_number: int, test: iperf3.Test, values: dict, numbers: dict[tuple, int]) -> Run:
    """Return the run of one test.

    Algorithm, streams and size are those of the test if neither the sheet nor the file name contains them.
    """
    completed = dict.fromkeys(settings.SETTINGS) | {"rtt_ns": None} | values
    completed["algorithm"] = completed["algorithm"] or test.algorithm
    completed["streams"] = completed["streams"] or len(test.streams)
    completed["size_bytes"] = completed["size_bytes"] or test.requested_bytes
    key = tuple(completed[column] for column in settings.SETTINGS)
    number = numbers.get(key, 0)
    numbers[key] = number + 1
    run = completed.pop("run", None)
    if run is None:
        run = number
    cell_id = f"{name}#{document_number}" if document_number > 1 else name
    return Run(cell_id, run, completed, [Process(0, name, test)])
