"""Samples that failed: their reason and log in quarantine/, and the choice to make tables without them.

The end of a run that failed writes quarantine/<sample>.json and quarantine/<sample>.log of each failed sample. With
`missing: report` in the config, later runs omit these samples, and the report names them. With `missing: fail`, the
default, they are tried again, and tables need all samples.

A sample is omitted as long as its capture does not change. If the cause may be outside the sample, such as a lack of
memory, it is omitted only after it has failed in MAX_RUNS runs.
"""

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from acapella.campaign.batches import STAGES, outputs_of
from acapella.campaign.failed_samples import directory_of, read_records
from acapella_core import names
from acapella_core.errors import OUTSIDE, UserError
from acapella_core.files import atomic_text

from .failures import report_failures, samples_that_failed
from .job_records import JobRecords

MAX_RUNS = 2
# Exit codes of jobs that a machine with more memory or time may complete.
TEMPORARY = (None, OUTSIDE, 128 + signal.SIGKILL, 128 + signal.SIGTERM)


def after_failure(
    campaign: str, config: Mapping, records: JobRecords, capture_of: Callable[[str], str], *, writes: bool
) -> None:
    """Record the failed samples, and report the failure of a run; once.

    ``writes``: whether this is Snakemake's main process. ``capture_of``: path of a sample's capture.
    """
    if writes and not records.reported:
        record_failures(campaign, records, capture_of)
    report_failures(records, config["exclude"], config["missing"])


def record_failures(campaign: str, records: JobRecords, capture_of: Callable[[str], str]) -> None:
    """Write the records and logs of the samples that failed in this run.

    ``capture_of``: path of a sample's capture, which may be missing. Errors such as a full disk are ignored: the next
    run tries the samples again.
    """
    remove_completed(campaign)
    directory = directory_of(Path(campaign))
    earlier = read_records(Path(campaign))
    for job, reason in samples_that_failed(records.failed, stopping=records.stopping):
        capture = state_of(capture_of(job.sample))
        before = earlier.get(job.sample, {})
        runs = before.get("runs", 0) + 1 if before.get("capture") == capture else 1
        record = {"rule": job.rule, "exit_code": job.exit_code, "reason": reason, "runs": runs, "capture": capture}
        with suppress(OSError, UserError):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copyfile(job.log, directory / f"{job.sample}.log")
            atomic_text(directory / f"{job.sample}.json", json.dumps(record, indent=1) + "\n")


def state_of(capture: str) -> dict:
    """Return path, size and modification time of a capture; its path and a state if it is missing or unreadable."""
    try:
        status = Path(capture).stat()
    except OSError:
        return {"path": capture, "state": "missing"}
    if not os.access(capture, os.R_OK):
        return {"path": capture, "state": "unreadable"}
    return {"path": capture, "bytes": status.st_size, "modified_ns": status.st_mtime_ns}


def omitted_samples(campaign: str, config: Mapping, captures: Callable[[], Mapping[str, str]]) -> list[str]:
    """Return the samples that failed in earlier runs and are not tried again; none without `missing: report`.

    ``captures``: returns the path of the capture of each sample of the campaign, also of captures that are missing.
    Records of samples that have left the sheet may still exist.
    """
    if config["missing"] != "report":
        return []
    records = read_records(Path(campaign))
    paths = {name: path for name, path in captures().items() if name not in config["exclude"]}
    return [name for name, record in records.items() if name in paths and is_omitted(record, paths[name])]


def reasons(campaign: str, samples: Iterable[str]) -> list[str]:
    """Return why samples failed."""
    records = read_records(Path(campaign))
    return [records[sample]["reason"] for sample in samples]


def is_omitted(record: Mapping, capture: str) -> bool:
    """Return whether the sample of a record is omitted. ``capture``: path of its capture."""
    unchanged = record.get("capture") == state_of(capture)
    return unchanged and (record.get("exit_code") not in TEMPORARY or record.get("runs", 0) >= MAX_RUNS)


def remove_completed(campaign: str) -> None:
    """Remove the records of samples that have been completed since they failed."""
    directory = directory_of(Path(campaign))
    for sample, record in read_records(Path(campaign)).items():
        if is_completed(Path(campaign), sample, record["rule"]):
            for suffix in (".json", ".log"):
                directory.joinpath(f"{sample}{suffix}").unlink(missing_ok=True)


def is_completed(campaign: Path, sample: str, rule: str) -> bool:
    """Return whether a sample has all results, and those of the rule that failed are newer than the record.

    Earlier results of a failed sample may still exist. The modification time of a link to an entry of a cache is that
    of the link.
    """
    results = {stage: outputs_of(campaign, STAGES[stage], sample) for stage in STAGES}
    if not all(path.exists() for paths in results.values() for path in paths):
        return False
    recorded = directory_of(campaign).joinpath(f"{sample}.json").stat().st_mtime_ns
    return all(path.lstat().st_mtime_ns > recorded for path in results[rule])


def print_omitted(campaign: str, omitted: Sequence[str]) -> None:
    """Print which samples are omitted, and how to try them again."""
    if omitted:
        plural = "sample is" if len(omitted) == 1 else "samples are"
        shown = ", ".join(omitted[:5]) + (", ..." if len(omitted) > 5 else "")
        names.report(
            f"acapella: {len(omitted)} {plural} missing in the tables, because an earlier run failed: {shown}; "
            f"to try one again, delete {directory_of(Path(campaign))}/SAMPLE.json"
        )
