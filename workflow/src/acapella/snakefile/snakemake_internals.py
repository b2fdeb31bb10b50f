"""Contains all uses of undocumented parts of Snakemake. docs/upstream.md gives the reasons.

Every function has a test with the installed version of Snakemake, which fails if a new version changes the parts that
it uses.
"""

import queue
import signal
import subprocess
import threading
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

from snakemake.settings.enums import Quietness

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


def hides_errors(workflow) -> bool:
    """Return whether Snakemake also suppresses its own errors (--quiet all)."""
    return Quietness.ALL in (workflow.output_settings.quiet or ()) and not workflow.dryrun


def forces_jobs(workflow) -> bool:
    """Return whether the command line has --force, --forceall or --forcerun, which would repeat jobs in the next run.

    False before all rules are read.
    """
    settings = workflow.dag_settings
    return settings is not None and bool(settings.forceall or settings.forcerun or settings.forcetargets)


def first_directory(workflow) -> str:
    """Return the directory in which Snakemake was started; --directory changes the working directory."""
    return workflow.rundir


def config_files(workflow) -> list[Path]:
    """Return the files of --configfile on the command line or in the profile."""
    return [*workflow.overwrite_configfiles]


def force_outputs(workflow, paths: Iterable[str]) -> None:
    """Force the jobs with these outputs to run, as --forcerun does; called while Snakemake builds its graph of jobs."""
    workflow.dag.forcefiles.update(paths)


def register_storage(registry, provider: str, **settings):
    """Return the provider of a storage plugin with settings, which Snakemake uses for its objects.

    ``registry``: `storage` in a Snakefile; only calls and the directive `storage:` are documented.
    """
    return registry.register_storage(provider, **settings)


def make_copies_writable(provider) -> None:
    """Let a provider of storage plugin fs make each fetched copy writable.

    The plugin keeps the mode of a file, and Snakemake does not delete read-only copies after the last job that reads
    them, only when the run ends.
    """

    class WritableCopy(provider.get_storage_object_cls()):
        def retrieve_object(self):
            super().retrieve_object()
            self.local_path().chmod(0o600)

    provider.get_storage_object_cls = lambda: WritableCopy


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


def is_incomplete_checkpoint(error: Exception) -> bool:
    """Return whether the output of a checkpoint was requested before the checkpoint ran."""
    return (type(error).__module__, type(error).__name__) == ("snakemake.exceptions", "IncompleteCheckpointException")


def modules_of(error: BaseException) -> set[str]:
    """Return the names of the modules in the traceback of an exception."""
    return {frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)}


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
    """Replace the handler of a signal with one that calls ``on_signal`` and runs ``handler`` in a thread.

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
