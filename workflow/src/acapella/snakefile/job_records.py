"""Records failed jobs of a run and their exit codes, from Snakemake's log events instead of its output.

Snakemake passes an event to its loggers when a job starts or fails, even with --quiet. Only the process that ran the
shell of the job knows the exit code. Under Slurm, this process is on another machine. It writes the exit code to
NAME.exit in the directory of the job's log, and the process that submitted the job reads it. A job without an exit
code was not started, or it was killed together with the process that ran it.
"""

import contextlib
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake_interface_logger_plugins.common import LogEvent

from acapella.campaign.batches import log_of, read_current, read_failures
from acapella_core.errors import UserError
from acapella_core.files import atomic_text

from .snakemake_internals import job_exit_code


@dataclass(frozen=True)
class FailedJob:
    """A job that failed.

    ``sample``: set if the job has only one sample; ``exit_code``: exit code of the command, 128 + N if signal N ended
    it, None if unknown; ``errno``: number of an operating system error in Snakemake itself; ``earlier``: outputs that
    existed when the job started; ``started``: whether the job is a batch that was killed while it processed the sample.
    """

    rule: str
    sample: str | None
    log: Path
    exit_code: int | None = None
    errno: int | None = None
    earlier: tuple[Path, ...] = ()
    started: bool = False

    @property
    def deleted(self) -> bool:
        """Return whether an output of an earlier run no longer exists; Snakemake deletes outputs after it reports a
        failure.

        Evaluate it when Snakemake has finished.
        """
        return any(not path.exists() for path in self.earlier)


class JobRecords(logging.Handler):
    """A handler for Snakemake's logger that collects the failed jobs of a run, and whether the run is being stopped.

    ``dry_run`` returns whether jobs are only printed, or their outputs only touched. It is a function because this is
    not yet known when Snakemake reads the Snakefile.
    """

    def __init__(self, dry_run: Callable[[], bool] = lambda: False):
        super().__init__(logging.INFO)
        self.dry_run = dry_run
        self._failed: dict[int, list[FailedJob]] = {}
        self.reported = False  # set by failures.report_failures
        self.stopping = False  # Snakemake received SIGTERM or SIGINT
        self._samples: dict[int, str | None] = {}
        self._batches: set[int] = set()
        self._existed: dict[int, tuple[Path, ...]] = {}

    @property
    def failed(self) -> list[FailedJob]:
        """The jobs that failed in their last attempt so far; for a batch, one job for each failed sample."""
        return [job for failures in self._failed.values() for job in failures]

    def record_stop(self) -> None:
        """Record that Snakemake received a signal to stop."""
        self.stopping = True

    def record_success(self) -> None:
        """Record that the run is complete. A signal that did not stop it has no effect."""
        self.stopping = False

    def emit(self, record: logging.LogRecord) -> None:
        """Record a job that starts or fails. Other events are ignored.

        Raises WorkflowError, which Snakemake prints in one line, if the log of a job cannot be created. Otherwise the
        shell of the job would exit with 1, which is the exit code for a damaged capture.
        """
        event = getattr(record, "event", None)
        if event == LogEvent.JOB_INFO:
            self._failed.pop(record.jobid, None)  # another attempt (--retries)
            self._samples[record.jobid] = record.wildcards.get("sample")
            if "batch" in record.wildcards:
                self._batches.add(record.jobid)
            existed = tuple(path for path in map(Path, record.output) if path.exists())
            self._existed.setdefault(record.jobid, existed)  # a failed attempt deletes outputs
            if record.log and not self.dry_run():
                self._renew_log(record)
        elif event == LogEvent.JOB_ERROR and record.log:
            failure = self._failure(record, sys.exception())
            is_batch = record.jobid in self._batches
            self._failed[record.jobid] = failures_of_samples(failure) if is_batch else [failure]

    def _renew_log(self, record: logging.LogRecord) -> None:
        """Create an empty log for a job that starts, and remove its old exit code. Raises WorkflowError."""
        log = Path(record.log[0])
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            for earlier in (exit_file(log), failed_samples(log), current_sample(log), log):
                earlier.unlink(missing_ok=True)
            log.touch(mode=0o600)
        except OSError as error:
            sample = self._samples[record.jobid]
            self._failed[record.jobid] = [FailedJob(record.rule_name, sample, log, errno=error.errno)]
            raise WorkflowError(f"acapella: error: {log}: the log cannot be written: {error.strerror}") from None

    def _failure(self, record: logging.LogRecord, error: BaseException | None) -> FailedJob:
        """Return the failed job of an event. Write its exit code to a file if it is known; otherwise read that file."""
        log = Path(record.log[0])
        code, error_number = job_exit_code(error)
        if code is None:
            code = read_exit_code(log)
        else:
            write_exit_code(log, code)
        earlier = self._existed.get(record.jobid, ())
        return FailedJob(record.rule_name, self._samples.get(record.jobid), log, code, error_number, earlier)


def failed_samples(log: Path) -> Path:
    """Return the path of the list of failed samples that belongs to the log of a batch."""
    return log.with_suffix(".failed.tsv")


def current_sample(log: Path) -> Path:
    """Return the path of the file with the sample that a batch is processing, which belongs to the log of the batch."""
    return log.with_suffix(".current")


def failures_of_samples(failure: FailedJob) -> list[FailedJob]:
    """Return a failure for each failed sample of a batch, and for the sample during which the batch was killed.

    Return the failure of the job itself if there is neither.
    """
    try:
        failed, current = read_failures(failed_samples(failure.log)), read_current(current_sample(failure.log))
    except (OSError, ValueError, UserError):  # Snakemake would wait forever after an exception in a logger
        return [failure]
    if current is not None:
        failed.setdefault(current, failure.exit_code)
    campaign = failure.log.parents[3]  # CAMPAIGN/logs/batches/STAGE/BATCH.log
    return [
        FailedJob(failure.rule, sample, log_of(campaign, failure.rule, sample), code, started=sample == current)
        for sample, code in failed.items()
    ] or [failure]


def exit_file(log: Path) -> Path:
    """Return the path of the exit code file that belongs to a job's log."""
    return log.with_suffix(".exit")


def write_exit_code(log: Path, code: int) -> None:
    """Write the exit code of a job. If the disk is full or read-only, the exit code is lost."""
    try:
        atomic_text(exit_file(log), f"{code}\n")
    except UserError:
        with contextlib.suppress(OSError):
            exit_file(log).unlink(missing_ok=True)


def read_exit_code(log: Path) -> int | None:
    """Return the exit code written by the process that ran a job; None if there is none."""
    try:
        return int(exit_file(log).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
