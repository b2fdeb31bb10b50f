"""Lists the campaigns of a dashboard, and computes the state of their files, which reveals changed campaigns."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from acapella.campaign.layout import Campaign, existing_provenance
from acapella.common.wording import natural
from acapella_core import beneath
from acapella_core.errors import UserError

DIRECTORY = "dashboard"  # in the directory of the campaigns
SITES = "sites"  # in the directory of the pages: pages of sites
PROVENANCE_STAGES = ("process", "consistency")  # their provenance files contain the SHA-256 of the tables that are read
TABLES = {"capture_quality": "process", "flows_per_sample": "process", "consistency_environments": "consistency"}
REPORT = "report.html"


def campaign_names(results: Path, selected: Sequence[str] | None = None, output: Path | None = None) -> list[str]:
    """Return the names of the campaigns in a directory, in natural order; only the ``selected`` ones, if any.

    Every directory counts, except hidden ones, ``dashboard``, and directories of pages in ``output``. Raises UserError
    if the directory cannot be read, or if a selected campaign does not exist.
    """
    beneath.check_directory(results)
    try:
        with os.scandir(results) as entries:
            names = {entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()}
    except OSError as error:
        raise UserError(f"cannot read: {error.strerror}", where=results) from error
    names -= {name for name in names if results / name in pages_in(results, output)}
    if selected is None:
        return sorted(names, key=natural)
    for name in selected:
        if name not in names:
            raise UserError(f"no such campaign: {name}", where=results, fix="correct dashboard.campaigns in the config")
    return sorted(set(selected), key=natural)


def pages_in(results: Path, output: Path | None) -> list[Path]:
    """Return the directories below ``results`` that contain pages of a dashboard, even if ``output`` is ``results``."""
    directories = [DIRECTORY]
    if output is not None:
        inside = os.path.relpath(output.resolve(), results.resolve())
        directories += [SITES] if inside == "." and not (results / SITES / "provenance").exists() else [inside]
    return [results / name for name in directories]


def state_of(directory: Path) -> str:
    """Return the SHA-256 of a campaign's provenance files, and of the sizes of the tables that a dashboard reads.

    Provenance files contain the checksums of the tables. Of the stages transfer and infrastructure, only the existence
    of the provenance file counts. A file that cannot be read counts as missing.
    """
    campaign = Campaign(directory)
    total = hashlib.sha256()
    for stage in PROVENANCE_STAGES:
        content = read_or_none(existing_provenance(campaign, stage))
        total.update(b"missing\0" if content is None else hashlib.sha256(content).digest())
    for name in TABLES:
        total.update(f"{name} {size_of(campaign.table(name, 'parquet'))}\0".encode())
    total.update(f"transfer {size_of(campaign.provenance('transfer')) is not None}".encode())
    total.update(f"study {size_of(campaign.provenance('infrastructure')) is not None}".encode())
    return total.hexdigest()


def state_of_results(results: Path, selected: Sequence[str] | None = None) -> str:
    """Return the SHA-256 of all that the pages depend on: campaigns, their states and reports, and outcomes.csv.

    It includes the modification times of tables, so that a repaired table causes new pages.
    A campaign or directory that does not exist counts as empty; `acapella campaign dashboard` reports it.
    """
    if not results.is_dir():
        return ""
    total = hashlib.sha256(read_or_none(results / "outcomes.csv") or b"")
    for name in sorted(set(selected)) if selected else campaign_names(results):
        total.update(os.fsencode(name))
        times = [time_of(Campaign(results / name).table(table, "parquet")) for table in TABLES]
        total.update(f"\0{has_report(results / name)} {state_of(results / name)} {times}\0".encode())
    return total.hexdigest()


def has_report(directory: Path) -> bool:
    """Return whether a campaign has a report."""
    return size_of(directory / REPORT) is not None


def read_or_none(path: Path) -> bytes | None:
    """Return the content of a regular file; None if it is missing or cannot be read."""
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError:
        return None


def time_of(path: Path) -> int | None:
    """Return the modification time of a file in ns; None if it is missing or cannot be read."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def size_of(path: Path) -> int | None:
    """Return the size of a regular file in bytes; None if it is missing or cannot be read."""
    try:
        return path.stat().st_size if path.is_file() else None
    except OSError:
        return None
