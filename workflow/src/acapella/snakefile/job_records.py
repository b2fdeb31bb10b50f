"""Which jobs of a run failed and how they ended, from Snakemake's own records of jobs, whatever it prints.

Snakemake passes an event to its loggers when a job starts or fails, also with --quiet. The process that ran the job's
shell also knows its exit code; under Slurm that is another process on another machine, so the exit code is written
beside the job's log, as NAME.exit, and read by the process that started it. A job without an exit code was not
started, or it was killed with all that watched it.
"""

import contextlib
import logging
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake_interface_logger_plugins.common import LogEvent

from acapella_core.errors import UserError
from acapella_core.files import atomic_text

OF_SHELL = "snakemake.shell"  # raises the exit code of a job's command


@dataclass(frozen=True)
class FailedJob:
    """A job that failed.

    ``sample``: of a job of one sample; ``exit_code``: of its command, 128 + N if signal N ended it, None if unknown;
    ``errno``: of the error that Snakemake met around the command; ``earlier``: outputs that were there when it started.
    """

    rule: str
    sample: str | None
    log: Path
    exit_code: int | None = None
    errno: int | None = None
    earlier: tuple[Path, ...] = ()

    @property
    def deleted(self) -> bool:
        """Whether an output of an earlier run is gone now; Snakemake deletes outputs after it reports the failure."""
        return any(not path.exists() for path in self.earlier)


class JobRecords(logging.Handler):
    """Keeps the failed jobs of a run, and whether it was asked to stop; add it to Snakemake's logger.

    ``dry_run`` returns whether jobs are only printed, or only their outputs touched; the Snakefile is read before
    Snakemake knows.
    """

    def __init__(self, dry_run: Callable[[], bool] = lambda: False):
        super().__init__(logging.INFO)
        self.dry_run = dry_run
        self.failed: list[FailedJob] = []
        self.reported = False  # set by failures.report_failures
        self.stopping = False  # set by the handlers of SIGTERM and SIGINT (rules/samples.smk)
        self._samples: dict[int, str | None] = {}
        self._existed: dict[int, tuple[Path, ...]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Take up a job that starts or fails; other events are ignored.

        Raises WorkflowError, which Snakemake prints in one line, if the log of a job cannot be made: Snakemake does not
        survive that either, and the shell of the job would exit with 1, which is the code of a damaged capture.
        """
        event = getattr(record, "event", None)
        if event == LogEvent.JOB_INFO:
            self._samples[record.jobid] = record.wildcards.get("sample")
            self._existed[record.jobid] = tuple(path for path in map(Path, record.output) if path.exists())
            if record.log and not self.dry_run():
                self._renew_log(record)
        elif event == LogEvent.JOB_ERROR and record.log:
            self.failed.append(self._failure(record, sys.exception()))

    def _renew_log(self, record: logging.LogRecord) -> None:
        """Empty the log of a job that starts and remove its exit code. Raises WorkflowError."""
        log = Path(record.log[0])
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            for earlier in (exit_file(log), log):
                earlier.unlink(missing_ok=True)
            log.touch(mode=0o600)
        except OSError as error:
            sample = self._samples[record.jobid]
            self.failed.append(FailedJob(record.rule_name, sample, log, errno=error.errno))
            raise WorkflowError(f"acapella: error: {log}: the log cannot be written: {error.strerror}") from None

    def _failure(self, record: logging.LogRecord, error: BaseException | None) -> FailedJob:
        """Return the failed job of an event; the exit code is written beside its log, or read from there."""
        log = Path(record.log[0])
        code, number = exit_code(error)
        if code is None:
            code = read_exit_code(log)
        else:
            write_exit_code(log, code)
        earlier = self._existed.get(record.jobid, ())
        return FailedJob(record.rule_name, self._samples.get(record.jobid), log, code, number, earlier)


def exit_code(error: BaseException | None) -> tuple[int | None, int | None]:
    """Return the exit code of a job's shell and the errno of a failed system call, each None if it is not in a chain
    of exceptions.
    """
    code = number = None
    seen = []
    while error is not None and error not in seen:
        seen.append(error)
        if isinstance(error, subprocess.CalledProcessError) and OF_SHELL in modules_of(error):
            code = error.returncode if error.returncode >= 0 else 128 - error.returncode
        elif isinstance(error, OSError) and number is None:
            number = error.errno
        error = error.__cause__ or error.__context__
    return code, number


def modules_of(error: BaseException) -> set[str]:
    """Return the names of the modules through which an exception passed."""
    return {frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)}


def exit_file(log: Path) -> Path:
    """Return the file with the exit code of the job that a log belongs to."""
    return log.with_suffix(".exit")


def write_exit_code(log: Path, code: int) -> None:
    """Write the exit code beside a job's log; a disk that is full or read-only loses it."""
    try:
        atomic_text(exit_file(log), f"{code}\n")
    except UserError:
        with contextlib.suppress(OSError):
            exit_file(log).unlink(missing_ok=True)


def read_exit_code(log: Path) -> int | None:
    """Return the exit code that the process which ran a job has written; None if there is none."""
    try:
        return int(exit_file(log).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
