"""Start Snakemake without importing it each time: snakemake_server.py reads requests and forks a process for each.

A request is a line of JSON on standard input: the arguments, the working directory, the environment, the umask, and the
file for both output streams. The answer is a line with the exit code. Each run calls the function that `python -m
snakemake` calls, in a separate process; runs share only imported modules and the list of plugins.
"""

import atexit
import contextlib
import importlib
import json
import os
import sys
import tempfile
import threading
from typing import NoReturn

from snakemake import cli

from acapella_core.validation import load_jsonschema

# Modules that every run imports: those of Snakemake for reading a workflow, and ours in the Snakefile.
IMPORTED = (
    "smart_open",
    "snakemake.executors.dryrun",
    "snakemake.executors.local",
    "snakemake.report",
    "acapella.snakefile.cached_digests",
    "acapella.snakefile.cleanup",
    "acapella.snakefile.collection",
    "acapella.snakefile.config",
    "acapella.snakefile.failures",
    "acapella.snakefile.job_records",
    "acapella.snakefile.sample_sheet",
    "acapella.snakefile.snakemake_internals",
    "acapella.snakefile.trials",
    "acapella.flowreports.sample",
    "acapella.campaign.outcomes",
    "acapella.campaign.storage",
    "acapella.common.vendors",
    "acapella.digest.cache",
    "acapella_capture.collect",
    "acapella_capture.plan.dry_run",
    "acapella_capture.precheck",
    "acapella_capture.testbeds.files",
)


def run(request: dict) -> NoReturn:
    """Run Snakemake in this process, with directory, environment and files of the request."""
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # makes tempfile read TMPDIR again
    os.umask(request["umask"])
    os.chdir(request["directory"])
    sys.argv[1:] = request["arguments"]
    for stream, path, mode in ((0, os.devnull, os.O_RDONLY), (1, request["output"], os.O_WRONLY)):
        opened = os.open(path, mode)
        os.dup2(opened, stream)
        os.close(opened)
    os.dup2(1, 2)
    try:
        cli.main(request["arguments"])
    except SystemExit as ended:
        end(ended.code)
    raise AssertionError("Snakemake's main function does not return")


def end(code: int | str | None) -> NoReturn:
    """End this fork as Python does, but without freeing objects, which takes as long as a dry run.

    Freeing them would copy most of the memory that this process shares with the server.
    """
    if isinstance(code, str):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


def serve() -> None:
    """Serve requests until standard input ends."""
    with contextlib.redirect_stdout(sys.stderr):
        load_jsonschema()  # without the part of it that is slow to import
        for name in IMPORTED:
            importlib.import_module(name)
        cli.get_argument_parser()  # finds the plugins
    while line := sys.stdin.readline():
        child = os.fork()
        if child == 0:
            run(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve()
