"""Tests the changes to Snakemake's plugin for Slurm, with the installed plugin and without Slurm."""

import asyncio
import contextlib
import fcntl
import importlib
import os
from types import SimpleNamespace

import pytest
from acapella_testing.new_files import new_directory
from acapella_testing.processes import executable

from acapella.snakefile import slurm_plugin
from acapella.snakefile.slurm_plugin import HELD, LOST, LOST_S, WAIT_S, ControllerState, held_jobs
from acapella_core.errors import UserError


class Clock:
    """A clock that only `sleep` advances."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


SETTINGS = {"init_seconds_before_status_checks": 1, "status_attempts": 2, "keep_successful_logs": True, "requeue": True}


EXECUTOR = {  # replaces the workflow, Slurm and the log for the plugin's executor
    "workflow": SimpleNamespace(executor_settings=SimpleNamespace(**SETTINGS)),
    "logger": SimpleNamespace(**dict.fromkeys(("debug", "info", "warning"), lambda *_, **__: None)),
    "status_rate_limiter": contextlib.nullcontext(),
    "run_uuid": "run",
    "get_status_command": lambda self: "squeue",
    "report_job_success": lambda self, job, **_: self.reports.append((job.external_jobid, "success")),
    "report_job_error": lambda self, job, msg=None, **_: self.reports.append((job.external_jobid, msg)),
    "run_job": lambda self, job: self.reports.append((job, "submitted")),
}


QUERIES = dict.fromkeys((f"_status_query_{name}" for name in ("calls", "total_seconds", "failures", "max_seconds")), 0)


@pytest.fixture
def plugin(monkeypatch, tmp_path):
    """Return the plugin's module, reloaded: its executor needs no workflow, and its queries return `states`."""
    monkeypatch.setattr(slurm_plugin, "RUNS", tmp_path / "runs")
    module = importlib.reload(pytest.importorskip(slurm_plugin.MODULE))
    for name in ("get_min_job_age", "is_query_tool_available"):
        monkeypatch.setattr(module, name, lambda *_: 300)

    async def query_job_status(*_):
        return (None, None) if module.states is None else (module.states, 0.1)

    module.states, module.query_job_status = {}, query_job_status
    monkeypatch.setattr(slurm_plugin, "held_jobs", lambda name: set())
    for name, value in EXECUTOR.items():
        monkeypatch.setattr(module.Executor, name, value, raising=False)
    yield module
    importlib.reload(module)


def executor_of(module, answers=None, clock=None):
    """Return an executor for queries. ``answers``: returns whether the controller responds; installs our changes."""
    if answers is not None:
        slurm_plugin.install(module)
        module.Executor.controller = ControllerState(answers, clock or Clock())
    executor = object.__new__(module.Executor)
    vars(executor).update(QUERIES, _status_query_min_seconds=None, _status_query_cycle_rows=[], reports=[])
    executor._preemption_warning = True
    executor._next_seconds_between_status_checks = slurm_plugin.MAX_CHECK_S
    return executor


def kept(executor, *names: str) -> list[str]:
    """Return which of the jobs with these identifiers the executor will query again."""
    jobs = [SimpleNamespace(external_jobid=name, aux={}, job=None) for name in names]

    async def collect():
        return [found.external_jobid async for found in executor.check_active_jobs(jobs)]

    return asyncio.run(collect())


def test_plugin_forgets_jobs_whose_state_it_cannot_query(plugin):
    """If this fails, the plugin has been corrected, and slurm_plugin.py may no longer be needed."""
    plugin.states = None
    assert kept(executor_of(plugin), "1") == []


@pytest.mark.parametrize("name", ["query_job_status", *(f"Executor.{name}" for name in slurm_plugin.CHANGED)])
def test_plugin_without_an_attribute_that_is_changed_is_an_error(name):
    executor = {key: None for key in slurm_plugin.CHANGED if not name.endswith(key)}
    module = SimpleNamespace(__file__="plugin.py", Executor=SimpleNamespace(**executor))
    if name != "query_job_status":
        module.query_job_status = None
    with pytest.raises(UserError, match=rf"plugin\.py: .* has no {name}; install"):
        slurm_plugin.install(module)


@pytest.mark.parametrize("answers", [False, True], ids=["no controller", "controller that stops before the query"])
def test_jobs_are_kept_if_their_state_is_unknown(plugin, answers):
    plugin.states, executor = None, executor_of(plugin, lambda: answers)
    assert kept(executor, "1", "2") == ["1", "2"]
    assert executor.reports == []


def test_ended_jobs_are_reported_once(plugin):
    executor = executor_of(plugin, lambda: True)
    plugin.states = {"1": "COMPLETED", "2": "RUNNING", "3": "TIMEOUT"}
    assert kept(executor, "1", "2", "3") == ["2"]
    assert kept(executor, "2") == ["2"]
    assert [name for name, _ in executor.reports] == ["1", "3"]


def test_interval_between_queries_grows_with_the_time_since_a_job_ended(plugin):
    clock = Clock()
    executor, intervals = executor_of(plugin, lambda: True, clock), []
    for waited, state in ((0, "COMPLETED"), (8, "RUNNING"), (60, "RUNNING"), (600, "RUNNING"), (5, "COMPLETED")):
        clock.sleep(waited)
        plugin.states = {"1": state, "2": "RUNNING"}
        kept(executor, "1", "2")
        intervals.append(executor.next_seconds_between_status_checks)
    assert SETTINGS["init_seconds_before_status_checks"] == 1
    assert intervals == pytest.approx([1, 1, 3.4, slurm_plugin.MAX_CHECK_S, 1])


def test_job_that_slurm_has_lost_or_not_requeued_fails_after_some_time(plugin):
    clock = Clock()
    executor = executor_of(plugin, lambda: True, clock)
    plugin.states = {"2": "RUNNING", "3": "PREEMPTED", "7": "RUNNING"}
    for _ in range(3):
        assert kept(executor, "1", "2", "3", "7_3") == ["1", "2", "3", "7_3"]
        clock.sleep(LOST_S / 3)
    assert kept(executor, "1", "2", "3", "7_3") == ["2", "7_3"]
    assert executor.reports == [("1", LOST), ("3", LOST)]


def test_job_that_slurm_holds_is_canceled_and_fails(plugin, monkeypatch, tmp_path):
    executable(tmp_path / "squeue", "#!/bin/sh\necho '1|launch failed requeued held'; echo '2|Priority'\n")
    executable(tmp_path / "scancel", f"#!/bin/sh\necho $@ >> {tmp_path}/canceled\n")
    monkeypatch.setattr(slurm_plugin, "held_jobs", held_jobs)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    executor = executor_of(plugin, lambda: True)
    plugin.states = {"1": "PENDING", "2": "PENDING", "3": "RUNNING"}
    assert kept(executor, "1", "2", "3") == ["2", "3"]
    assert executor.reports == [("1", HELD)]
    assert (tmp_path / "canceled").read_text() == "1\n"


def test_submission_waits_for_a_controller_that_has_answered_before(plugin, monkeypatch):
    clock, answers = Clock(), iter([True, False, False, True])
    monkeypatch.setattr(slurm_plugin.time, "sleep", clock.sleep)
    executor = executor_of(plugin, lambda: next(answers), clock)
    for name in "ab":
        executor.run_job(name)
    assert executor.reports == [("a", "submitted"), ("b", "submitted")]
    assert clock.seconds == 2 * slurm_plugin.POLL_S


def test_pending_jobs_of_killed_runs_are_canceled_before_the_first_submission(plugin, monkeypatch, tmp_path):
    """Those of a run that is still running are not."""
    executable(tmp_path / "squeue", "#!/bin/sh\ncase $* in *RUNNING*) echo '7|None' ;; *) echo '8|Resources' ;; esac\n")
    for name in ("scancel", "scontrol"):
        executable(tmp_path / name, f"#!/bin/sh\necho {name} $@ >> {tmp_path}/commands\n")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    runs = new_directory(tmp_path / "runs")
    (runs / "killed").touch()
    with (runs / "running").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        executor = executor_of(plugin, lambda: True)
        for name in "ab":
            executor.run_job(name)
    commands = ["scancel --state=PENDING --name=killed", "scontrol update JobId=7 Requeue=0"]
    assert (tmp_path / "commands").read_text().splitlines() == commands
    assert {path.name for path in runs.iterdir()} == {"running", "run"}
    with (runs / "run").open() as own, pytest.raises(BlockingIOError):
        fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize(("before", "seconds"), [(False, 0), (True, WAIT_S)])
def test_wait_for_the_controller_is_limited(before, seconds, monkeypatch):
    clock, answers = Clock(), iter([before])
    monkeypatch.setattr(slurm_plugin.time, "sleep", clock.sleep)
    controller = ControllerState(lambda: next(answers, False), clock)
    controller.responds()
    controller.wait()
    assert clock.seconds == pytest.approx(seconds)
