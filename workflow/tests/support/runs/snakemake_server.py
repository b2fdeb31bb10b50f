"""Start Snakemake without importing it each time: snakemake_server.py reads requests and forks a process for each.

A request is a line of JSON on standard input: the arguments, the working directory, the environment, the umask, and the
file for both output streams. The answer is a line with the exit code. Each run calls the function that `python -m
snakemake` calls, in a separate process; runs share only imported modules, the list of plugins, rule files that the
server has parsed and compiled, and checksums of modules, which are as old as the imported modules.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import io
import json
import os
import re
import sys
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

from acapella_testing.source_tree import ROOT
from snakemake import cli, parser, workflow
from snakemake.sourcecache import infer_source_file

from acapella.figures import registry
from acapella.snakefile import code
from acapella_core.validation import load_jsonschema

# Modules that every run imports: those of Snakemake for reading a workflow, and ours in the Snakefile.
IMPORTED = """
smart_open snakemake.executors.dryrun snakemake.executors.local snakemake.report
acapella.snakefile.cached_digests acapella.snakefile.cleanup acapella.snakefile.collection acapella.snakefile.config
acapella.snakefile.failures acapella.snakefile.job_records acapella.snakefile.sample_sheet
acapella.snakefile.snakemake_internals acapella.snakefile.trials acapella.flowreports.sample
acapella.campaign.outcomes acapella.campaign.storage acapella.common.vendors acapella.digest.cache
acapella_capture.collect acapella_capture.plan.dry_run acapella_capture.precheck acapella_capture.testbeds.files
acapella_testing.without_sync
"""


STAGES = re.compile(r'digest_of_code\(("[^()]*")\)')  # in rule files
PARSED: dict[tuple[str, int], tuple[str, dict[int, int], int]] = {}
CACHE = SimpleNamespace(open=lambda file: io.StringIO(Path(file.get_path_or_uri(secret_free=True)).read_text()))


def parse(path, running, linemap, overwrite_shellcmd=None, rulecount=0):
    """Return what Snakemake's function of this name returns, but parse each file only once."""
    with running.sourcecache.open(path) as file:
        key = file.read(), rulecount
    if key not in PARSED:
        lines: dict[int, int] = {}
        text, count = parser.parse(path, running, lines, overwrite_shellcmd, rulecount)
        PARSED[key] = text, lines, count
    text, lines, count = PARSED[key]
    linemap |= lines
    return text, count


def read_rules() -> None:
    """Parse and compile the Snakefile and its rule files in the order in which they are included."""
    workflow.parse = parse
    workflow.compile = functools.cache(compile)
    text = (ROOT / "Snakefile").read_text()
    count = 0
    for name in ("Snakefile", *re.findall('^include: "(.*)"', text, re.MULTILINE)):
        file = infer_source_file(str(ROOT / name))
        parsed, count = parse(file, SimpleNamespace(sourcecache=CACHE), {}, rulecount=count)
        workflow.compile(parsed, file.get_path_or_uri(secret_free=True), "exec")
        for stages in STAGES.findall((ROOT / name).read_text()):
            code.digest(*re.findall(r'"(.+?)"', stages))
    for figure in registry.all_figures():
        code.figure_digest(figure)


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
        for name in IMPORTED.split():
            importlib.import_module(name)
        cli.get_argument_parser()  # finds the plugins
        read_rules()
    gc.collect()
    gc.freeze()  # a search for unreachable objects would copy the memory that forks share
    while line := sys.stdin.readline():
        child = os.fork()
        if child == 0:
            run(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    gc.unfreeze()  # otherwise nanobind reports the objects of the core as leaked


if __name__ == "__main__":
    serve()
