"""Tests the line about the progress of a run."""

import logging
from pathlib import Path

from acapella_testing.runs.workflow_run import run_snakemake
from acapella_testing.waiting import wait_until
from snakemake_interface_logger_plugins.common import LogEvent

from acapella.snakefile.progress import Progress


class Run:
    """A Progress that receives events of a run, and a clock that the test sets."""

    def __init__(self, **planned: int):
        self.seconds, self.lines = 0.0, []
        self.progress = Progress(self.lines.append, lambda: self.seconds)
        self.event(LogEvent.RUN_INFO, stats={**planned, "all": 1, "total": sum(planned.values()) + 1})

    def event(self, event: LogEvent, **values) -> None:
        """Pass an event to the handler, as Snakemake's logger does."""
        self.progress.emit(logging.makeLogRecord({"event": event, **values}))

    def begin(self, rule: str, *jobs: int, **wildcards: str) -> None:
        for job in jobs:
            self.event(LogEvent.JOB_INFO, jobid=job, rule_name=rule, wildcards=wildcards)

    def finish(self, *jobs: int) -> None:
        for job in jobs:
            self.event(LogEvent.JOB_FINISHED, job_id=job)

    def fail(self, *jobs: int) -> None:
        for job in jobs:
            self.event(LogEvent.JOB_ERROR, jobid=job)


def test_line_counts_samples_while_they_are_digested():
    run = Run(digest=40, process=1)
    assert run.progress.line() is None
    run.begin("digest", *range(16))
    run.finish(*range(12))
    run.fail(12)
    run.seconds = 120
    assert run.progress.line() == (
        "acapella: 12 of 40 samples digested, 3 in progress, 1 failed; about 4 min until all are digested"
    )


def test_time_left_is_that_of_digests_and_only_stated_if_their_rate_is_known():
    """Digests take 10 minutes, four at a time, after a collection of an hour."""
    run = Run(collect=1, digest=8, analyze=8, figures=1)
    run.begin("collect", 100)
    run.seconds = 3600
    run.finish(100)
    run.begin("digest", *range(4))
    run.seconds += 600
    run.finish(0)
    run.begin("digest", 4)
    assert run.progress.line() == "acapella: 1 of 8 samples digested, 4 in progress"
    run.finish(1, 2, 3)
    run.begin("digest", 5, 6, 7)
    assert run.progress.line().endswith("4 of 8 samples digested, 4 in progress; about 10 min until all are digested")


def test_batches_are_counted_as_batches():
    run = Run(digest=3)
    run.begin("digest", 1, 2, batch="b1")
    run.finish(1)
    assert run.progress.line().startswith("acapella: 1 of 3 batches digested, 1 in progress")


def test_repeated_job_is_not_a_failure():
    run = Run(digest=2)
    run.begin("digest", 1)
    run.fail(1)
    run.begin("digest", 1)
    assert run.progress.line() == "acapella: 0 of 2 samples digested, 1 in progress"


def test_line_counts_jobs_after_the_last_digest():
    run = Run(digest=1, process=3)
    run.begin("digest", 1)
    run.finish(1)
    run.begin("process", 2)
    run.begin("analyze", 3, 4)
    run.seconds = 60
    assert run.progress.line() == "acapella: 1 of 5 jobs finished, 3 in progress (analyze, process)"


def test_samples_that_a_checkpoint_adds_are_counted():
    run = Run(collect=1)
    run.begin("collect", 1)
    run.finish(1)
    run.event(LogEvent.PROGRESS, done=1, total=2)
    run.event(LogEvent.PROGRESS, done=1, total=5)
    run.begin("digest", 2, 3)
    run.finish(2)
    assert run.progress.line().startswith("acapella: 1 of 2 samples digested, 1 in progress")


def test_lines_are_printed_at_intervals():
    run = Run(digest=2)
    run.begin("digest", 1)
    run.progress.start(0.001)
    wait_until(lambda: len(run.lines) >= 3)
    run.progress.stop()
    assert set(run.lines) == {"acapella: 0 of 2 samples digested, 1 in progress"}


def test_handler_understands_events_of_snakemake(tmp_path):
    """Of four samples, one has its output already, one fails in each attempt, and one only in the first.

    Snakemake counts the same jobs.
    """
    (tmp_path / "a.acap").touch()
    snakefile = Path(__file__).parent / "snakefiles" / "progress.smk"
    options = ["--cores", "1", "--snakefile", str(snakefile), "--keep-going", "--retries", "1"]
    ended = run_snakemake(options, tmp_path, {})
    assert [line for line in ended.stdout.splitlines() if line.startswith("acapella: ")] == [
        "acapella: 2 of 4 jobs finished, 1 failed"
    ], ended.stdout
    assert "2 of 4 steps" in ended.stdout
