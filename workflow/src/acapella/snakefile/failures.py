"""Reports a failed or interrupted run: failed samples, jobs that failed for other reasons, and advice."""

import errno
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from acapella.common.exits import CRASHES, NOT_STARTED
from acapella.digest.command import ADVICE
from acapella_core import names
from acapella_core.errors import DAMAGED, INTERNAL, INTERRUPTED, MISTAKE, OUTSIDE

from .job_records import FailedJob, JobRecords

MIN_FREE = 1 << 20  # bytes
SAMPLE_RULES = ("collect", "digest", "analyze", "flowreports")  # rules whose failures are attributed to the sample
DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
HINTS = {
    signal.SIGKILL: "the memory may be too small, or a time limit too short",
    signal.SIGILL: "the program may be built for a different processor",
    signal.SIGBUS: "a disk may be full or fail, or a file was truncated while it was read",
}
MEMORY_OR_TIME = (None, OUTSIDE, 128 + signal.SIGKILL)  # exit codes of jobs that may have exceeded their limits
PREFIX = "acapella: error: "
MAX_NAMED = 3  # number of jobs named per reason


def report_failures(records: JobRecords, excluded: Sequence[str], missing: str = "fail") -> None:
    """Print the result of `failure_report` on standard error, once for each run of Snakemake."""
    if not records.reported:
        records.reported = True
        print(failure_report(records.failed, excluded, stopping=records.stopping, missing=missing), file=sys.stderr)


def failure_report(
    jobs: Sequence[FailedJob], excluded: Sequence[str], *, stopping: bool = False, missing: str = "fail"
) -> str:
    """Return a report about the failed samples and jobs, with the last line of each log, and how to continue.

    Only exit codes determine whether a sample is the cause of a failure, not the text of logs. ``jobs``: failed jobs;
    ``excluded``: samples that the config excludes; ``stopping``: whether Snakemake received SIGTERM or SIGINT;
    ``missing``: the config key, which determines whether the next run omits failed samples.
    """
    if is_disk_full(jobs):
        return f"acapella: the disk is full; free space in {Path.cwd()}, then run snakemake again"
    outside = {job: reason for job in jobs if (reason := reason_outside(job))}
    stopped = [job for job in jobs if job not in outside and is_stopped(job)]
    failed = [job for job in jobs if job not in outside and job not in stopped]
    failed_samples = {job.sample: job for job in failed if job.sample and job.rule in SAMPLE_RULES}
    others = [job for job in failed if job not in failed_samples.values()]
    lines = [*about_samples(failed_samples, excluded, missing)]
    if outside and not failed_samples and not others:  # other logs may name a sample that caused the failure
        lines.append("acapella: no sample caused this failure")
    if others:
        lines += ["acapella: these jobs failed:", *by_reason({name(job): last_line(job.log) for job in others})]
    if outside:
        lines.append(
            "acapella: these jobs failed for reasons outside the samples; fix these causes, then run snakemake again:"
        )
        lines += by_reason({name(job): reason for job, reason in outside.items()})
    restart = "; the collection starts over and captures all samples again" if has_collection(stopped) else ""
    next_step = f"acapella: stopped; run snakemake again to continue{restart}"
    if not stopping and stopped and not lines:
        lines.append(next_step)
    if not stopping and (ended := [name(job) for job in stopped if job.exit_code == 128 + signal.SIGTERM]):
        lines.append(
            "acapella: these jobs were stopped, perhaps by a time limit (--set-resources RULE:runtime=MINUTES):"
        )
        lines += by_reason(dict.fromkeys(ended, "ended by SIGTERM"))
    if deleted := [job for job in jobs if job.deleted and job.sample]:  # other rules update their outputs in place
        lines.append("acapella: Snakemake deleted earlier results of these jobs; the next run recreates them:")
        lines += [f"  {name(job)}" for job in deleted]
    if stopping:
        lines.append(next_step)
    return "\n".join(lines or ["acapella: no job failed; the message above gives the reason"])


def is_disk_full(jobs: Sequence[FailedJob]) -> bool:
    """Return whether the disk of the working directory is full, or was full when a job failed."""
    return shutil.disk_usage(".").free < MIN_FREE or any(job.errno in DISK_FULL_ERRNOS for job in jobs)


def samples_that_failed(jobs: Sequence[FailedJob], *, stopping: bool) -> list[tuple[FailedJob, str]]:
    """Return the jobs whose failure may be caused by their sample, each with the reason.

    Unlike in the report, these include jobs that exceeded memory or time, and jobs that a cluster ended if their
    logs are not empty. If Snakemake is being stopped, these additional jobs are not included; if the
    disk is full, no job is.
    """
    if is_disk_full(jobs):
        return []
    failed = []
    for job in jobs:
        if job.sample is None or job.rule not in SAMPLE_RULES:
            continue
        reason = reason_outside(job)
        if is_stopped(job):
            reason = None if stopping or job.exit_code != 128 + signal.SIGTERM else "ended by SIGTERM, perhaps too slow"
        elif reason is None:
            reason = reason_of(job)
        elif stopping or job.exit_code not in MEMORY_OR_TIME or (is_empty(job.log) and not job.started):
            reason = None
        if reason is not None:
            failed.append((job, reason))
    return failed


def about_samples(failed: dict[str, FailedJob], excluded: Sequence[str], missing: str) -> list[str]:
    """Return the lines about samples that caused failures."""
    if not failed:
        return []
    damaged = sorted(sample for sample, job in failed.items() if job.rule == "digest" and job.exit_code == DAMAGED)
    lines = [
        "acapella: these samples failed:",
        *by_reason({sample: reason_of(job) for sample, job in failed.items()}, "samples"),
    ]
    if missing == "report":
        without_reports = [job.rule == "flowreports" for job in failed.values()]
        tables = "tables of flow reports" if all(without_reports) else "tables and figures"
        lines.append(f"acapella: the next run creates {tables} without them; the report lists them")
        if any(without_reports) and not all(without_reports):
            lines.append("acapella: samples whose flow reports failed are missing only from the tables of flow reports")
        return lines
    lines += [
        "To create tables without samples that fail, which the report then lists, set `missing: report` in the config.",
        "Repair them and run snakemake again; or exclude them with this line in the config:",
        f"  exclude: [{', '.join(sorted({*failed, *excluded}))}]",
    ]
    if damaged:
        lines += [f"or, to keep the frames before the damage in {', '.join(damaged)}, with this line:"]
        lines += ["  digest: {damaged: keep}"]
    return lines


def by_reason(reasons: dict[str, str], noun: str = "jobs") -> list[str]:
    """Return a line for each reason of failure with the name of the job, or the number of jobs and the first names."""
    names: dict[str, list[str]] = {}
    for job in sorted(reasons):
        names.setdefault(reasons[job], []).append(job)
    lines = []
    for reason, jobs in names.items():
        first = ", ".join(jobs[:MAX_NAMED]) + (", ..." if len(jobs) > MAX_NAMED else "")
        lines.append(f"  {first}: {reason}" if len(jobs) == 1 else f"  {len(jobs)} {noun} ({first}): {reason}")
    return lines


def reason_outside(job: FailedJob) -> str | None:
    """Return the reason why a job failed if it is not a fault of its input or a stop; None otherwise."""
    code = job.exit_code
    if code is None:
        what = "it was killed before it ended" if job.started else "it was not started, or killed before it ended"
        return f"{what}; Snakemake's message above gives the reason"
    if code in NOT_STARTED:
        return f"a program cannot be started (exit code {code}): {last_line(job.log)}"
    if code == OUTSIDE:  # if the disk is full, the log is empty
        missing = "the machine lacks space, memory or a program (exit code 75), and the log is empty: free space first"
        return missing if is_empty(job.log) else last_line(job.log)
    if code == INTERNAL:  # a library that cannot be imported, or a bug
        return f"the program failed (exit code 70, a traceback in the log): {last_line(job.log)}"
    if code in (DAMAGED, MISTAKE) and is_empty(job.log):
        # A shell that cannot open the log exits with 1. acapella always prints a line for these exit codes.
        return f"exit code {code}, and its log {job.log} is missing or empty"
    killed = code > 128 and code not in INTERRUPTED and code - 128 not in CRASHES
    hint = f"; {HINTS[code - 128]}" if code - 128 in HINTS else ""
    return f"killed by signal {code - 128}{hint}" if killed else None


def is_stopped(job: FailedJob) -> bool:
    """Return whether a job was ended by Ctrl-C, SIGTERM or SIGHUP."""
    return job.exit_code in INTERRUPTED


def has_collection(jobs: Sequence[FailedJob]) -> bool:
    """Return whether one of the jobs is the collection of a testbed, which captures all samples in one job."""
    return any(job.rule == "collect" and job.sample is None for job in jobs)


def name(job: FailedJob) -> str:
    """Return the name of a job: its rule, and its sample if it has one."""
    return f"{job.rule} {job.sample}" if job.sample else job.rule


def reason_of(job: FailedJob) -> str:
    """Return the reason why the sample of a job failed, without advice for the command line."""
    return last_line(job.log).partition(ADVICE)[0]


def last_line(log: Path) -> str:
    """Return the last line of a job's log, without the prefix of errors."""
    return "its log is empty" if is_empty(log) else names.shown(text_of(log).splitlines()[-1]).removeprefix(PREFIX)


def is_empty(log: Path) -> bool:
    """Return whether a log has no text."""
    return not text_of(log)


def text_of(log: Path) -> str:
    """Return the text of a log without leading and trailing whitespace; empty if it cannot be read."""
    try:
        return log.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
