"""Workarounds for faults of Snakemake's plugin for Slurm (snakemake-executor-plugin-slurm 2.8); docs/upstream.md.

If Slurm's controller does not respond, the plugin loses track of all running jobs and waits for them forever, and jobs
submitted at that time fail. It also waits forever for jobs that a restarted controller does not know, and for jobs that
Slurm holds, because a node could not start them. After `install`, the plugin waits for the controller, and such jobs
fail, so that `retries` repeats them. It also shortens the interval between queries, because the plugin notices the end
of a job only at the next query, and cancels the pending jobs of an earlier run whose Snakemake was killed.
"""

import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from acapella_core.errors import UserError
from acapella_core.files import locked

MODULE = "snakemake_executor_plugin_slurm"
WAIT_S = 900  # longest restart of a controller
POLL_S = 2
# While no job ends, the plugin's interval between queries grows by 10 s up to 180 s. Here, it is this share of the time
# since the last job ended, so that a following job of the same length is delayed by at most this share.
CHECK_SHARE, MAX_CHECK_S = 0.05, 30
# A job that ended is listed for MinJobAge (by default 300 s). With accounting, a new job may not be listed
# until some seconds after its submission.
LOST_S = 120
LOST = "Slurm no longer lists this job (its controller may have lost it in a restart), or preempted it for good. "
PREEMPTED = "PREEMPTED"  # the final state of a preempted job that is not requeued; the plugin would wait forever
# After a crash, a controller that has saved a job as pending starts it again, which a node that still runs it rejects.
HELD = "A node could not start this job, and Slurm held it. "
HELD_REASON = "launch failed requeued held"
RUNS = Path(".snakemake/slurm_runs")  # in the working directory: an empty file for each run, locked while it runs

CHANGED = (  # attributes of the plugin's executor that the new methods replace, call or set
    *("check_active_jobs", "next_seconds_between_status_checks", "report_job_error", "report_job_success"),
    *("run_array_jobs", "run_job"),
)


def slurm(*command: str) -> subprocess.CompletedProcess:
    """Run a command of Slurm, without an error message. If it does not end, the result is a failure without output."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return subprocess.CompletedProcess(command, 1, "", "")


def controller_responds() -> bool:
    """Return whether Slurm's controller responds."""
    return " is UP" in slurm("scontrol", "ping").stdout


def reasons(name: str, state: str) -> dict[str, str] | None:
    """Return the jobs of this name in a state, such as PENDING, with the reason why each is not running.

    Return None if Slurm does not list them.
    """
    listed = slurm("squeue", "--noheader", f"--states={state}", f"--name={name}", "--format=%i|%r")
    if listed.returncode:
        return None
    rows = (row.partition("|") for row in listed.stdout.splitlines())
    return {identifier.strip(): reason.strip() for identifier, _, reason in rows}


def held_jobs(name: str) -> set[str]:
    """Return the identifiers of jobs of this name that Slurm has requeued but never starts (HELD_REASON)."""
    found = (reasons(name, "PENDING") or {}).items()
    return {identifier for identifier, reason in found if reason.replace("_", " ") == HELD_REASON}


def withdraw(name: str) -> int | None:
    """Cancel the pending jobs of this name, and make Slurm not requeue the running ones.

    Return the number of canceled jobs; None if Slurm did not do all of this. A job may start or end meanwhile.
    """
    pending = reasons(name, "PENDING")
    if pending is None or slurm("scancel", "--state=PENDING", f"--name={name}").returncode:
        return None
    running = reasons(name, "RUNNING")
    changed = {
        identifier: slurm("scontrol", "update", f"JobId={identifier}", "Requeue=0").returncode == 0
        for identifier in running or ()
    }
    remaining = reasons(name, "RUNNING")
    if running is None or remaining is None or not all(changed.get(identifier) for identifier in remaining):
        return None
    return len(pending)


def withdraw_killed_runs(report: Callable[[str], object]) -> None:
    """Withdraw the jobs of runs in this directory whose Snakemake was killed.

    When such a job starts, it deletes the output that the same job of this run may have written.
    """
    for path in RUNS.iterdir():
        if not path.is_file():
            continue
        with path.open("a") as stream:
            if not locked(stream.fileno(), fcntl.flock):
                continue
            canceled = withdraw(path.name)
            if canceled is not None:
                path.unlink()
        if canceled is None:
            report(
                f"acapella: warning: Slurm did not cancel pending jobs of an earlier run; use scancel -n {path.name}"
            )
        elif canceled:
            report(f"acapella: canceled pending Slurm jobs of an earlier run, which was killed: {canceled}")


def register_run(name: str) -> None:
    """Create and lock the file of this run in RUNS; the lock is released when this process ends, even by kill -9."""
    while True:
        descriptor = os.open(RUNS / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if locked(descriptor, fcntl.flock) is not False and os.fstat(descriptor).st_nlink:
            return
        os.close(descriptor)  # another run locked it first, and may have removed it
        time.sleep(POLL_S)


class ControllerState:
    """The state of Slurm's controller, as observed by an executor of the plugin.

    ``responds``: returns whether the controller responds; ``now``: returns the time in s.
    """

    def __init__(self, responds: Callable[[], bool] = controller_responds, now: Callable[[], float] = time.monotonic):
        self._responds = responds
        self._now = now
        self._contacted = False
        self._quiet_since = now()
        self.ended: set[int] = set()  # id() of job infos that the plugin has reported
        self.listed: set[str] | None = None  # Slurm's identifiers in the last response to a query
        self._missing_since: dict[str, float] = {}

    def responds(self) -> bool:
        """Return whether the controller responds."""
        responds = self._responds()
        self._contacted = self._contacted or responds
        return responds

    def wait(self) -> None:
        """Wait until the controller responds, at most WAIT_S. Does not wait if it has never responded in this run."""
        end = self._now() + WAIT_S
        while not self.responds() and self._contacted and self._now() < end:
            time.sleep(POLL_S)

    def interval(self, previous: float) -> float:
        """Return the interval to the next query, in s. ``previous``: the interval before the last query."""
        if self.ended:
            self._quiet_since = self._now()
            return min(previous, MAX_CHECK_S)
        return min(max(previous, CHECK_SHARE * (self._now() - self._quiet_since)), MAX_CHECK_S)

    def is_lost(self, identifier: str) -> bool:
        """Return whether a job has not been in the responses for LOST_S.

        An array task may be listed under the array's identifier.
        """
        if self.listed is None:
            return False
        if {identifier, identifier.partition("_")[0]} & self.listed:
            self._missing_since.pop(identifier, None)
            return False
        return self._now() - self._missing_since.setdefault(identifier, self._now()) >= LOST_S


def install(module=None) -> None:
    """Change the methods of the plugin if it is loaded. ``module``: the plugin; by default the loaded one.

    Raises UserError if this version of the plugin lacks one of the attributes that the changes need.
    """
    module = module or sys.modules.get(MODULE)
    if module is None or hasattr(module.Executor, "controller"):
        return
    executor = [f"Executor.{name}" for name in CHANGED if not hasattr(module.Executor, name)]
    if missing := executor + ([] if hasattr(module, "query_job_status") else ["query_job_status"]):
        what = f"this version of Snakemake's plugin for Slurm has no {', '.join(missing)}"
        raise UserError(what, where=module.__file__, fix="install version 2.8 (make setup)")
    change_queries(module)
    change_submission(module.Executor)


def change_queries(module) -> None:
    """Make the plugin keep jobs while the controller does not respond, and report jobs that Slurm has lost or holds.

    Also sets the interval between queries.
    """
    executor, query = module.Executor, module.query_job_status
    check, success, error = executor.check_active_jobs, executor.report_job_success, executor.report_job_error
    response: list[dict[str, str] | None] = [None]  # response to the last query: the state of each job

    async def query_job_status(*arguments):
        response[0], duration = await query(*arguments)
        return response[0], duration

    async def check_active_jobs(self, active_jobs):
        controller = self.controller
        if active_jobs and not controller.responds():
            for job in active_jobs:
                yield job
            return
        controller.ended.clear()
        response[0] = None
        previous = self.next_seconds_between_status_checks
        kept = [job async for job in check(self, active_jobs)]
        if controller.ended:
            previous = self.next_seconds_between_status_checks  # the plugin's setting
        self.next_seconds_between_status_checks = controller.interval(previous)
        states = response[0]
        controller.listed = None if states is None else {name for name in states if states[name] != PREEMPTED}
        waits = states is not None and any(states.get(job.external_jobid) != "RUNNING" for job in kept)
        held = held_jobs(self.run_uuid) if waits else set()
        # If the controller stops responding during the query, the plugin neither keeps nor reports any job.
        forgotten = [job for job in active_jobs if job not in kept and id(job) not in controller.ended]
        for job in (*kept, *forgotten):
            if controller.is_lost(job.external_jobid):
                slurm("scancel", job.external_jobid)  # Slurm may still requeue it
                self.report_job_error(job, msg=LOST)
            elif job.external_jobid in held:
                slurm("scancel", job.external_jobid)
                self.report_job_error(job, msg=HELD)
            else:
                yield job

    def report_job_success(self, job_info, *arguments, **options):
        self.controller.ended.add(id(job_info))
        return success(self, job_info, *arguments, **options)

    def report_job_error(self, job_info, *arguments, **options):
        self.controller.ended.add(id(job_info))
        return error(self, job_info, *arguments, **options)

    module.query_job_status = query_job_status
    executor.check_active_jobs = check_active_jobs
    executor.report_job_success, executor.report_job_error = report_job_success, report_job_error


def change_submission(executor: type) -> None:
    """Make the plugin wait for the controller before it submits a job, and withdraw the jobs of killed runs once."""
    submit, submit_array = executor.run_job, executor.run_array_jobs
    executor.controller = ControllerState()  # Snakemake creates one executor
    executor.is_registered = False
    registration = threading.Lock()  # the plugin submits jobs in several threads

    def prepare(self):
        self.controller.wait()
        with registration:
            if self.is_registered:
                return
            self.is_registered = True
            try:
                RUNS.mkdir(parents=True, exist_ok=True)
                withdraw_killed_runs(self.logger.info)
                register_run(self.run_uuid)
            except OSError as error:
                text = "if this run is killed, or an earlier one was, cancel its pending jobs with scancel"
                self.logger.warning(f"acapella: {RUNS}: {error.strerror}; {text}")

    def run_job(self, job):
        prepare(self)
        return submit(self, job)

    def run_array_jobs(self, jobs):
        prepare(self)
        return submit_array(self, jobs)

    executor.run_job, executor.run_array_jobs = run_job, run_array_jobs
