"""Workarounds for faults of Snakemake's plugin for Slurm (snakemake-executor-plugin-slurm 2.8); docs/upstream.md.

If Slurm's controller does not respond, the plugin loses track of all running jobs and waits for them forever, and jobs
submitted at that time fail. It also waits forever for jobs that a restarted controller does not know, and for jobs that
Slurm holds, because a node could not start them. After `install`, the plugin waits for the controller, and such jobs
fail, so that `retries` repeats them. It also shortens the interval between queries, because the plugin notices the end
of a job only at the next query.
"""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable

from acapella_core.errors import UserError

MODULE = "snakemake_executor_plugin_slurm"
WAIT_S = 900  # longest restart of a controller
POLL_S = 2
# While no job ends, the plugin's interval between queries grows by 10 s up to 180 s. Here, it is this share of the time
# since the last job ended, so that a following job of the same length is delayed by at most this share.
CHECK_SHARE, MAX_CHECK_S = 0.05, 30
# A job that ended is listed for MinJobAge (by default 300 s). With accounting, a new job may be listed seconds later.
LOST_S = 120
LOST = "Slurm no longer lists this job; its controller may have lost it in a restart. "
# After a crash, a controller that has saved a job as pending starts it again, which a node that still runs it rejects.
HELD = "A node could not start this job, and Slurm held it. "
HELD_REASON = "launch failed requeued held"

CHANGED = (  # attributes of the plugin's executor that the new methods replace, call or set
    *("check_active_jobs", "next_seconds_between_status_checks", "report_job_error", "report_job_success"),
    *("run_array_jobs", "run_job"),
)


def controller_responds() -> bool:
    """Return whether Slurm's controller responds, without an error message if it does not."""
    try:
        ended = subprocess.run(["scontrol", "ping"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return " is UP" in ended.stdout


def held_jobs(name: str) -> set[str]:
    """Return the identifiers of jobs of this name that Slurm has requeued but never starts (HELD_REASON)."""
    command = ["squeue", "--noheader", "--states=PENDING", f"--name={name}", "--format=%i|%r"]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return set()
    rows = (line.partition("|") for line in ended.stdout.splitlines())
    return {identifier.strip() for identifier, _, reason in rows if reason.strip().replace("_", " ") == HELD_REASON}


def cancel(identifier: str) -> None:
    """Cancel a job, without an error message if that fails."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(["scancel", identifier], capture_output=True, timeout=60, check=False)


class ControllerState:
    """The state of Slurm's controller, as observed by an executor of the plugin.

    ``responds``: whether the controller responds; ``now``: time in s.
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
        controller.listed = None if states is None else {*states}
        waits = states is not None and any(states.get(job.external_jobid) != "RUNNING" for job in kept)
        held = held_jobs(self.run_uuid) if waits else set()
        # If the controller stops responding during the query, the plugin neither keeps nor reports any job.
        forgotten = [job for job in active_jobs if job not in kept and id(job) not in controller.ended]
        for job in (*kept, *forgotten):
            if controller.is_lost(job.external_jobid):
                self.report_job_error(job, msg=LOST)
            elif job.external_jobid in held:
                cancel(job.external_jobid)
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
    """Make the plugin wait for the controller before it submits a job."""
    submit, submit_array = executor.run_job, executor.run_array_jobs
    executor.controller = ControllerState()  # Snakemake creates one executor

    def run_job(self, job):
        self.controller.wait()
        return submit(self, job)

    def run_array_jobs(self, jobs):
        self.controller.wait()
        return submit_array(self, jobs)

    executor.run_job, executor.run_array_jobs = run_job, run_array_jobs
