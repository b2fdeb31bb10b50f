"""The command line of Acapella in forks of a running interpreter, which has imported the modules below."""

import atexit
import importlib
import os
import signal
import sys
import threading

from acapella.cli import entry
from acapella.figures.registry import all_figures, figure_module
from acapella_core import pandas_import
from acapella_core.validation import load_jsonschema

IMPORTED = """
acapella.campaign.analyze acapella.campaign.index acapella.campaign.outcomes acapella.campaign.process
acapella.campaign.provenance acapella.campaign.trials acapella.cli.batch acapella.cli.main acapella.collector.receive
acapella.common.bootstrap acapella.common.tables acapella.digest.acap_files acapella.digest.command
acapella.digest.hybrid acapella.figures.command acapella.figures.save acapella.figures.source acapella.kappa.command
acapella.release.command acapella.report.command acapella.report.page
duckdb numpy pyarrow.compute pyarrow.csv pyarrow.parquet
"""


def import_modules() -> None:
    """Import what the commands of the workflow import."""
    pandas_import.prevent()
    load_jsonschema()  # before Altair imports it
    for name in IMPORTED.split():
        importlib.import_module(name)
    for name in all_figures():
        figure_module(name)


def run() -> int:
    """Run the command line with the arguments of this fork to its end; return the exit code."""
    for name in ("WARM_PYTHON", "REAL_PYTHON"):
        os.environ.pop(name, None)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the server ignores it
    sys.argv[0] = "acapella"
    try:
        code = entry.main()
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    threading._shutdown()
    atexit._run_exitfuncs()
    return code


import_modules()
