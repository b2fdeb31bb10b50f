"""Records the reasons and logs of failed samples in quarantine/, and omits these samples if the config permits it.

At the end of a failed run, quarantine/<sample>.json and quarantine/<sample>.log of each failed sample are written. With
`missing: report` in the config, the next run starts immediately (`start_next_run`) and omits these samples, which the
report lists. With `missing: fail`, the default, they are retried, and tables need all samples.

A sample whose flow reports failed is omitted only from the tables of flow reports (`by_stage`).

A sample is omitted as long as its capture, its values in the sheet, and the code, options and limits of its stage do
not change. If the cause may be outside the sample, such as a lack of memory, it is omitted only after it has failed in
MAX_RUNS runs.
"""

import hashlib
import json
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from acapella.campaign.batches import OF_SELECTED, STAGES, Member, outputs_of, read_plan, state_of
from acapella.campaign.failed_samples import KIND, read_records, record_of
from acapella.campaign.journal import Journal
from acapella.campaign.layout import Campaign
from acapella.digest.command import ENGINES
from acapella_core import names
from acapella_core.errors import OUTSIDE, UserError
from acapella_core.files import atomic_text

from . import code
from .collection import collection_config
from .failures import report_failures, samples_that_failed
from .job_records import JobRecords
from .sample_names import ALL_SAMPLES
from .snakemake_internals import first_directory, forces_jobs, is_main_process, runs_no_jobs

MAX_RUNS = 2
VARIABLE = "ACAPELLA_FAILED_SAMPLES"  # names of the samples that failed in earlier runs of this process
# Exit codes of jobs that may succeed with more memory or time, or on a different machine.
TEMPORARY = (None, OUTSIDE, 128 + signal.SIGKILL, 128 + signal.SIGTERM)
HARMLESS = ("cache", "threads")  # options of digest that do not affect whether it fails
NOT_OF_REPORTS = ("samples", "study", "offered_mrps", "threads")  # options that do not affect a sample's flow reports


def no_values(_sample: str) -> list:
    """Return no values, because the user has not provided a sheet."""
    return []


def after_failure(  # noqa: PLR0913
    campaign: str,
    config: Mapping,
    records: JobRecords,
    capture_of: Callable[[str], str],
    values_of: Callable[[str], list] = no_values,
    *,
    writes: bool,
) -> None:
    """Record the failed samples, and report the failure of a run. Only the first call for a run has an effect.

    ``writes``: whether this is Snakemake's main process. Other parameters: see `record_failures`.
    """
    if writes and not records.reported:
        record_failures(campaign, config, records, capture_of, values_of)
    report_failures(records, config["exclude"], config["missing"])


def record_failures(
    campaign: str,
    config: Mapping,
    records: JobRecords,
    capture_of: Callable[[str], str],
    values_of: Callable[[str], list] = no_values,
) -> None:
    """Write the records and logs of the samples that failed in this run.

    ``capture_of``: path of a sample's capture, which may be missing; ``values_of``: values of the user's sheet that its
    manifest contains. Errors such as a full disk are ignored: the next run retries the samples.
    """
    remove_completed(campaign)
    earlier = read_records(Path(campaign))
    failed = samples_that_failed(records.failed, stopping=records.stopping)
    # If a second stage of a sample failed, its record replaces that of flow reports, which omits fewer results.
    for job, reason in sorted(failed, key=lambda job_and_reason: job_and_reason[0].rule != OF_SELECTED):
        causes = causes_of(job.rule, config, capture_of(job.sample), values_of(job.sample))
        previous = earlier.get(job.sample, {})
        runs = previous.get("runs", 0) + 1 if previous.items() >= causes.items() else 1
        record = {"rule": job.rule, "exit_code": job.exit_code, "reason": reason, "runs": runs, **causes}
        with suppress(OSError, UserError):
            path = record_of(Path(campaign), job.sample)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copyfile(job.log, path.with_name(f"{job.sample}.log"))
            atomic_text(path, json.dumps(record, indent=1) + "\n")


def capture_state(capture: str) -> dict:
    """Return path, size and modification time of a capture; its path and a state if it is missing or unreadable."""
    size, modified_ns = state_of(capture)
    if size is None:
        exists = os.path.exists(capture)  # noqa: PTH110 - Path.exists raises PermissionError
        return {"path": capture, "state": "unreadable" if exists else "missing"}
    return {"path": capture, "bytes": size, "modified_ns": modified_ns}


def omitted_samples(
    campaign: str,
    config: Mapping,
    captures: Callable[[Collection[str]], Mapping[str, str]],
    values_of: Callable[[str], list] = no_values,
) -> list[str]:
    """Return the samples that failed in earlier runs and are not retried; empty without `missing: report`.

    ``captures``: returns the path of the capture of each of these samples, even if it is missing; samples that have
    left the sheet are absent. ``values_of``: see `record_failures`.
    """
    if config["missing"] != "report":
        return []
    records = {
        name: record
        for name, record in read_records(Path(campaign)).items()
        if name not in config["exclude"] and is_processed(name, record["rule"], config)
    }
    paths = captures(records) if records else {}
    return [
        name
        for name, record in records.items()
        if name in paths and is_omitted(record, config, paths[name], values_of(name))
    ]


def is_processed(sample: str, rule: str, config: Mapping) -> bool:
    """Return whether the config still selects a sample for the rule that failed."""
    selected = config["flowreports"]["samples"] or ()
    return rule != OF_SELECTED or selected == ALL_SAMPLES or sample in selected


def by_stage(campaign: str, omitted: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the omitted samples that are in no table, and those whose flow reports failed, which lack only these."""
    records, groups = read_records(Path(campaign)), ([], [])
    for name in omitted:
        groups[records.get(name, {}).get("rule") == OF_SELECTED].append(name)
    return groups


def reasons(campaign: str, samples: Iterable[str]) -> list[str]:
    """Return why samples failed."""
    records = read_records(Path(campaign))
    return [records[sample]["reason"] for sample in samples]


def is_omitted(record: Mapping, config: Mapping, capture: str, values: list) -> bool:
    """Return whether the sample of a record is omitted. ``capture``, ``values``: see `causes_of`."""
    if record["exit_code"] in TEMPORARY and record["runs"] < MAX_RUNS:
        return False
    return record.items() >= causes_of(record["rule"], config, capture, values).items()


def causes_of(rule: str, config: Mapping, capture: str, values: list) -> dict:
    """Return the part of a record that identifies what may have caused the failure: if it changes, a rerun may succeed.

    ``rule``: one of STAGES; ``capture``: path of the sample's capture; ``values``: its values in the
    user's sheet. A failure of analyze or flowreports may be caused by the digest that it reads.
    """
    stages = ("digest", rule) if rule in ("analyze", "flowreports") else (rule,)
    described = json.dumps([values, *(settings_of(stage, config) for stage in stages)], sort_keys=True)
    return {"capture": capture_state(capture), "settings": hashlib.sha256(described.encode()).hexdigest()}


def settings_of(stage: str, config: Mapping) -> list:
    """Return the code, options and limits of a stage, and the versions of programs that it runs."""
    if stage == "collect":
        return [code.digest("acapella_capture.collect"), collection_config(config)]
    if stage == "digest":
        engine = config["digest"]["engine"]
        options = {key: value for key, value in config["digest"].items() if key not in HARMLESS}
        digests = [code.digest("acapella.digest.command", ENGINES[engine])]
        return [*digests, code.tshark_version(engine), code.vendors_sha256(), options]
    if stage == "flowreports":
        digests = [code.digest("acapella.flowreports.command"), code.sql_digest("flowreports", "comparators")]
        digests.append(code.loader_digest())
        return [*digests, {key: value for key, value in config["flowreports"].items() if key not in NOT_OF_REPORTS}]
    options = [config["analysis"][key] for key in ("throughput_bin_s", "congestion")]
    digests = [code.digest("acapella.campaign.analyze"), code.sql_digest("analyze", "congestion", "shared")]
    return [*digests, code.heuristics_digest(), options]


def remove_completed(campaign: str) -> None:
    """Remove the records of samples that have been completed since they failed."""
    records = read_records(Path(campaign))
    members = {member.sample: member for member in read_plan(Path(campaign))} if records else {}
    for sample, record in records.items():
        if is_completed(Path(campaign), members.get(sample, Member("", sample, "", "", "")), record["rule"]):
            for suffix in (".json", ".log"):
                record_of(Path(campaign), sample, suffix).unlink(missing_ok=True)


def is_completed(campaign: Path, member: Member, rule: str) -> bool:
    """Return whether a sample has all results, and those of the rule that failed are newer than the record.

    ``member``: the sample and its batch, "" if it has none. Flow reports are required only if rule flowreports failed,
    because the sample may not be selected for them.

    Earlier results of a failed sample may still exist. For a link to a cache entry, the modification time of the link
    counts.
    """
    stages = {*STAGES} - ({OF_SELECTED} - {rule})
    results = {stage: outputs_of(campaign, STAGES[stage], member) for stage in stages}
    if (campaign / "partial" / member.sample).is_dir():
        results["analyze"] = [Campaign(campaign).partial(member.sample, path.stem) for path in results["analyze"]]
    elif not Journal(campaign, "analyze", member.batch).has_completed(member.sample, results["analyze"]):
        return False
    if not all(path.exists() for paths in results.values() for path in paths):
        return False
    recorded = record_of(campaign, member.sample).stat().st_mtime_ns
    return all(path.lstat().st_mtime_ns > recorded for path in results[rule])


def print_omitted(campaign: str, failed: Sequence[str], without_reports: Sequence[str] = ()) -> None:
    """Print which samples are omitted, and how to retry them. ``without_reports``: those whose flow reports failed."""
    for omitted, tables in ((failed, "the tables"), (without_reports, "the tables of flow reports")):
        if not omitted:
            continue
        plural, whose = ("sample is", "its") if len(omitted) == 1 else ("samples are", "their")
        shown = ", ".join(omitted[:5]) + (", ..." if len(omitted) > 5 else "")
        names.report(
            f"acapella: {len(omitted)} {plural} missing from {tables}, because {whose} job failed: {shown}; "
            f"to try one again, delete {campaign}/{Campaign.at(Path(campaign)).pattern(KIND, 'SAMPLE.json')}"
        )


def start_next_run(workflow, campaign: str, config: Mapping, records: JobRecords) -> None:
    """Replace this process with the next run if it can make progress. Call this when Snakemake has ended.

    During a run, Snakemake cannot remove a failed sample from the inputs of other jobs. The next run has the same
    arguments, and the process has the exit code of the last one.

    Otherwise, for example if a job failed for a reason other than its sample, return. ``campaign``: absolute path.
    """
    if not is_main_process(workflow) or runs_no_jobs(workflow) or forces_jobs(workflow) or not is_command(sys.argv):
        return
    earlier = os.environ.get(VARIABLE, "").split()
    failed = progress(campaign, config, records, earlier)
    if not failed:
        return
    names.report("acapella: starting the next run; the WorkflowError above is about the failed samples")
    sys.stdout.flush()
    sys.stderr.flush()
    os.chdir(first_directory(workflow))  # the arguments may have paths relative to it
    try:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | {VARIABLE: " ".join(failed)})
    except OSError as error:  # the list of names is too long
        names.report(f"acapella: snakemake cannot be started again: {error.strerror}; run it again")


def is_command(arguments: Sequence[str]) -> bool:
    """Return whether the process is the command `snakemake`, not a program that uses Snakemake as a library."""
    path = Path(arguments[0])
    return path.name == "snakemake" or path.parts[-2:] == ("snakemake", "__main__.py")


def progress(campaign: str, config: Mapping, records: JobRecords, earlier: Sequence[str]) -> list[str]:
    """Return the samples that failed in this run and in earlier ones; [] if the next run cannot make progress.

    It cannot if a job failed for a different reason, if a sample has no record in quarantine/, for example because the
    disk is full, or if a sample failed in more than MAX_RUNS runs: then its capture keeps changing, or the sample would
    have been omitted.
    """
    jobs = samples_that_failed(records.failed, stopping=records.stopping)
    if config["missing"] != "report" or records.stopping or len(jobs) < len(records.failed):
        return []
    failed = [*dict.fromkeys(job.sample for job, _ in jobs)]  # once, even if two stages of a sample failed
    runs = Counter([*earlier, *failed])
    if not set(failed) <= set(read_records(Path(campaign))) or any(runs[sample] > MAX_RUNS for sample in failed):
        return []
    return [*earlier, *failed]
