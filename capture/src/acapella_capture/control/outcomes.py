"""Outcome of every site, for the campaign and over all collections (Patchwork, figure 10).

<campaign>/outcomes.csv has a line per site; outcomes.csv in the parent directory has the lines of all collections.
"""

import csv
import datetime
import fcntl
import io
import os
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal

from acapella_core import beneath
from acapella_core.errors import UserError
from acapella_core.files import atomic_text

FILE = "outcomes.csv"
Verdict = Literal["success", "degraded", "failed", "incomplete"]


@dataclass(frozen=True)
class Outcome:
    """Outcome of a site, one line of the file.

    Outcomes: success, degraded (fewer nodes than requested), failed (no sample), incomplete (stopped, or some samples
    failed).
    """

    campaign: str
    started: str  # start of the collection, ISO 8601, UTC
    site: str
    outcome: Verdict
    reason: str
    instances_requested: int = 0
    instances: int = 0
    samples: int = 0
    samples_failed: int = 0


COLUMNS = tuple(field.name for field in fields(Outcome))
KEY = ("campaign", "started", "site")
EARLIER_NAMES = {"instances_wanted": "instances_requested"}  # in files of earlier versions


def verdict(requested: int, allocated: int, succeeded: int, failed: int, stopped: str | None) -> tuple[Verdict, str]:
    """Return a site's outcome and the reason. `stopped`: reason why it ended before the end of its plan, or None."""
    if allocated == 0:
        return "failed", stopped or "no listening node"
    if succeeded == 0:
        return "failed", stopped or f"all {failed} samples failed"
    if stopped:
        return "incomplete", stopped
    if failed:
        return "incomplete", f"{failed} of {succeeded + failed} samples failed"
    if allocated < requested:
        return "degraded", f"{allocated} of {requested} listening nodes"
    return "success", ""


class OutcomeTable:
    """Writes both files at each change. A site is `incomplete` from the start, and therefore also after a crash."""

    def __init__(self, campaign: Path, started_ns: int):
        moment = datetime.datetime.fromtimestamp(started_ns / 1e9, datetime.UTC)
        self.campaign = campaign.resolve()
        self.started = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._outcomes: dict[str, Outcome] = {}
        self.merge_error: str | None = None  # why the table of all collections was not updated
        self._lock = threading.Lock()

    def record(self, site: str, outcome: Verdict, reason: str, **counts: int) -> Outcome:
        """Set the line of a site."""
        line = Outcome(self.campaign.name, self.started, site, outcome, " ".join(reason.split()), **counts)
        with self._lock:
            self._outcomes[site] = line
            rows = [row(outcome) for outcome in self._outcomes.values()]
            atomic_text(self.campaign / FILE, text(rows))
            try:
                merge(self.campaign.parent / FILE, rows)
            except (OSError, UserError) as error:
                self.merge_error = f"cannot update the table of all collections: {error}"
        return line


def row(outcome: Outcome) -> dict[str, str]:
    """Return an outcome as a line of the file."""
    return {key: str(value) for key, value in asdict(outcome).items()}


def text(rows: Iterable[dict[str, str]]) -> str:
    """Return the content of the file."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def read(path: Path) -> list[dict[str, str]]:
    """Return the lines of a file; none if it does not exist. Raises UserError if it is not a table of outcomes."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines)
        reader.fieldnames = [EARLIER_NAMES.get(name, name) for name in reader.fieldnames or ()]
        if tuple(reader.fieldnames) != COLUMNS:
            raise UserError("not a table of outcomes; move it elsewhere", where=path)
        return list(reader)


def merge(path: Path, rows: list[dict[str, str]]) -> None:
    """Merge lines into the file of all collections, replacing earlier lines of the same collection and site."""
    descriptor = beneath.open_file(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT)
    with os.fdopen(descriptor, "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # concurrent campaigns must not lose lines
        lines = {tuple(line[key] for key in KEY): line for line in (*read(path), *rows)}
        atomic_text(path, text(lines.values()))
