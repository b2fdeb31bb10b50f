"""Uses of Snakemake that its documentation does not describe, in one place. docs/upstream.md gives the reasons.

Every function has a test with the installed version of Snakemake, which fails if a new version changes what it uses.
"""

import contextlib
import queue
import signal
import subprocess
import threading
import traceback
from collections.abc import Callable, Iterable

import snakemake
from snakemake.caching.local import OutputFileCache

from acapella.digest import cache as digest_cache
from acapella_core.errors import UserError

CACHE_CLASS = "LocalOutputFileCache"  # name in snakemake.workflow of the class that --cache uses
SHELL_MODULE = "snakemake.shell"  # raises CalledProcessError with the exit code of a job's command


def is_dry_run(workflow) -> bool:
    """Return whether jobs are only printed. Before all rules are read, Snakemake returns False."""
    return workflow.dryrun


def runs_no_jobs(workflow) -> bool:
    """Return whether jobs are only printed, or their outputs only touched."""
    return workflow.dryrun or workflow.touch


def is_main_process(workflow) -> bool:
    """Return whether this process plans the jobs; False in the process of a single job, as under Slurm."""
    return workflow.is_main_process


def has_cache(workflow) -> bool:
    """Return whether the command line has --cache."""
    return workflow.enable_cache


def has_configfile(workflow) -> bool:
    """Return whether the command line or the profile has --configfile."""
    return bool(workflow.overwrite_configfiles)


def force_outputs(workflow, paths: Iterable[str]) -> None:
    """Make the jobs with these outputs run, as --forcerun does; called while Snakemake builds its graph of jobs."""
    workflow.dag.forcefiles.update(paths)


class CheckedCache(OutputFileCache):
    """Snakemake's cache in a directory. Entries are verified when they are used (`acapella.digest.cache`)."""

    async def fetch(self, job) -> None:
        """Link the outputs of a job to their entries. If an entry is missing or not intact, Snakemake runs the job.

        Outputs are linked after all entries are verified, because a job that runs would write through such a link.
        """
        entries = [entry for _, entry in await self.get_outputfiles_and_cachefiles(job)]
        faults = {entry: fault for entry in entries if (fault := digest_cache.fault_of(entry))}
        for entry, fault in faults.items():
            if fault != digest_cache.MISSING:
                digest_cache.report(digest_cache.warning(entry, job.wildcards.sample, fault))
            with contextlib.suppress(OSError):  # store() reports a directory that is not writable
                digest_cache.discard(entry)
        if faults:
            self.raise_cache_miss_exception(job)
        await super().fetch(job)

    async def exists(self, job) -> bool:
        """Return whether all entries exist and seem intact, for a dry run. Checksums take too long to compute."""
        entries = [entry for _, entry in await self.get_outputfiles_and_cachefiles(job)]
        return all(digest_cache.sum_file(entry).is_file() and not digest_cache.quick_fault(entry) for entry in entries)

    async def store(self, job) -> None:
        """Move the outputs of a job to the cache and replace them with links. If that fails, they stay in place."""
        for output, entry in await self.get_outputfiles_and_cachefiles(job):
            try:
                digest_cache.prepare_directory(entry.parent)
                digest_cache.keep(output, entry)
            except (OSError, UserError) as error:
                reason = getattr(error, "strerror", None) or error
                digest_cache.report(f"warning: sample {job.wildcards.sample} is not cached: {entry}: {reason}")
                return


def replace_cache(cache: type = CheckedCache) -> None:
    """Make Snakemake use another class for --cache. Raises UserError if it does not use a class of the known name."""
    from snakemake import api  # noqa: F401, PLC0415 - api first, else circular
    from snakemake import workflow as workflow_module  # noqa: PLC0415

    if getattr(workflow_module, CACHE_CLASS, None) is None:
        raise unsupported("its cache cannot be replaced")
    setattr(workflow_module, CACHE_CLASS, cache)


def remove_benchmark(workflow, name: str) -> None:
    """Remove the benchmark of a rule, which Snakemake does not allow together with a cache. Raises UserError."""
    rule = workflow.get_rule(name)
    existed = getattr(rule, "benchmark", None)
    rule._benchmark = None  # the public property has no such value
    if not existed or rule.benchmark:
        raise unsupported(f"rule {name} keeps its benchmark")


def job_exit_code(error: BaseException | None) -> tuple[int | None, int | None]:
    """Return the exit code of a job's shell and the errno of a failed system call, from a chain of exceptions.

    Each is None if it is not in the chain. ``error``: exception that Snakemake handles when it logs the job's failure.
    """
    code = number = None
    visited = []
    while error is not None and error not in visited:
        visited.append(error)
        if isinstance(error, subprocess.CalledProcessError) and SHELL_MODULE in modules_of(error):
            code = error.returncode if error.returncode >= 0 else 128 - error.returncode
        elif isinstance(error, OSError) and number is None:
            number = error.errno
        error = error.__cause__ or error.__context__
    return code, number


def modules_of(error: BaseException) -> set[str]:
    """Return the names of the modules in the traceback of an exception."""
    return {frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)}


def unsupported(reason: str) -> UserError:
    """Return the error if this version of Snakemake differs from the one that the tests use."""
    return UserError(f"--cache does not work with Snakemake {snakemake.__version__}: {reason}")


def record_signals(on_signal: Callable[[], None]) -> None:
    """Call ``on_signal`` for SIGTERM and SIGINT, and run Snakemake's handler of SIGTERM in another thread.

    Call this in `onstart`, after Snakemake has set its handler. The handler takes locks that the main thread, in which
    Python runs handlers, may hold at that moment. This is likely if the signal is sent to a process group, because
    jobs end at the same time and `make` sends the signal once more. A SIGINT to Snakemake alone ends no job, so that
    only ``on_signal`` can record why the run ended.
    """
    terminate, interrupt = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    if callable(terminate):
        run_in_thread(signal.SIGTERM, terminate, on_signal)
    if callable(interrupt):  # a background job of a shell ignores SIGINT

        def handle_interrupt(*received):
            on_signal()
            interrupt(*received)

        signal.signal(signal.SIGINT, handle_interrupt)


def run_in_thread(number: int, handler: Callable, on_signal: Callable[[], None]) -> None:
    """Replace the handler of a signal by one that calls ``on_signal`` and runs ``handler`` in a thread.

    The thread exists before the signal, and the queue is reentrant: a handler must not wait for a lock.
    """
    received: queue.SimpleQueue[tuple] = queue.SimpleQueue()

    def forward():
        while True:
            handler(*received.get())

    def handle(*arguments):
        on_signal()
        received.put(arguments)

    threading.Thread(target=forward, name=f"signal {number}", daemon=True).start()
    signal.signal(number, handle)
