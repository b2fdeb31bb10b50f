"""Prints one line per minute about the progress of a run, such as

acapella: 12 of 40 samples digested, 3 in progress, 1 failed; about 4 min until all are digested
acapella: 43 of 45 jobs finished, 1 in progress (figures)

The time is only estimated for digests, which are similar jobs: the time of other stages is not known before they end.
Snakemake prints several lines for each job, which hide the state of a run with thousands of jobs. The line
is an ordinary message of Snakemake's logger, so that --quiet suppresses it and the log file of the run contains it.
"""

import logging
import threading
import time
from collections.abc import Callable

from snakemake_interface_logger_plugins.common import LogEvent

INTERVAL_S = 60
DIGEST = "digest"  # each of its jobs is a sample, or a batch of samples


class Progress(logging.Handler):
    """A handler for Snakemake's logger that counts jobs, and prints the counts while a run lasts.

    A job is in progress from the time when Snakemake starts or submits it. ``report``: prints a line.
    """

    def __init__(self, report: Callable[[str], object], now: Callable[[], float] = time.monotonic):
        super().__init__(logging.INFO)
        self._report = report
        self._now = now
        self._first_digest_s = now()
        self._digest_jobs = self._jobs = 0  # planned
        self._unit = "sample"
        self._graph_jobs: int | None = None  # size of Snakemake's graph, which a checkpoint can change
        self._rules: dict[int, str] = {}
        self._running: set[int] = set()
        self._done: set[int] = set()
        self._failed: set[int] = set()
        self._ended = threading.Event()

    def start(self, interval_s: float = INTERVAL_S) -> None:
        """Print a line at each interval in a thread, until `stop` or until the process ends."""
        threading.Thread(target=self._print_lines, args=[interval_s], name="progress", daemon=True).start()

    def stop(self) -> None:
        """Stop printing lines."""
        self._ended.set()

    def _print_lines(self, interval_s: float) -> None:
        while not self._ended.wait(interval_s):
            if line := self.line():
                self._report(line)

    def emit(self, record: logging.LogRecord) -> None:
        """Count planned, started, finished and failed jobs. Other events are ignored."""
        event = getattr(record, "event", None)
        if event == LogEvent.RUN_INFO:
            self._digest_jobs = record.stats.get(DIGEST, 0)
            self._jobs = record.stats["total"]
        elif event == LogEvent.PROGRESS:  # its total includes jobs that --until omits
            if self._graph_jobs is not None:
                self._jobs += record.total - self._graph_jobs
            self._graph_jobs = record.total
        elif event == LogEvent.JOB_INFO:
            if record.rule_name == DIGEST and DIGEST not in self._rules.values():
                self._first_digest_s = self._now()
            self._rules[record.jobid] = record.rule_name
            if record.rule_name == DIGEST and "batch" in record.wildcards:
                self._unit = "batch"
            self._failed.discard(record.jobid)  # another attempt
            self._running.add(record.jobid)
        elif event == LogEvent.JOB_FINISHED:
            self._end(record.job_id, self._done)
        elif event == LogEvent.JOB_ERROR:
            self._end(record.jobid, self._failed)

    def _end(self, job: int, ended: set[int]) -> None:
        """Move a job from the jobs in progress to a different group."""
        if job in self._running:
            self._running.discard(job)
            ended.add(job)

    def line(self) -> str | None:
        """Return the line about the current state; None before the first job starts."""
        if not self._rules:
            return None
        running, done, failed = (self._count_digests(jobs) for jobs in (self._running, self._done, self._failed))
        planned = max(self._digest_jobs, running + done + failed)
        stages = ends = ""
        if done + failed < planned:
            plural = {"sample": "samples", "batch": "batches"}[self._unit]
            counts = f"{done} of {planned} {self._unit if planned == 1 else plural} digested"
            ends = self._time_left(done, running, planned - done - failed)
        else:
            running, failed = len(self._running), len(self._failed)
            counts = f"{len(self._done)} of {self._total()} jobs finished"
            stages = f" ({', '.join(sorted({self._rules[job] for job in list(self._running)}))})"
        parts = [f"{running} in progress{stages}"] * bool(running) + [f"{failed} failed"] * bool(failed)
        return f"acapella: {', '.join([counts, *parts])}{ends}"

    def _count_digests(self, jobs: set[int]) -> int:
        """Return the number of digest jobs among these jobs."""
        return sum(self._rules[job] == DIGEST for job in list(jobs))

    def _total(self) -> int:
        """Return the number of planned jobs."""
        return max(self._jobs, len(self._rules))

    def _time_left(self, done: int, running: int, left: int) -> str:
        """Return the rest of the line: the time until ``left`` digests are done at the average rate so far.

        The rate is known when as many digests are ``done`` as run at the same time.
        """
        if not done or done < running:
            return ""
        minutes = (self._now() - self._first_digest_s) / done * left / 60
        time_left = f"{minutes / 60:.1f} h" if minutes >= 120 else f"{max(1, round(minutes))} min"
        return f"; about {time_left} until all are digested"
