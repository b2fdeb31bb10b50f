"""Commands of acapella in this process, monitors as processes, and the tests of the C programs."""

import argparse
import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from acapella_testing import c_programs
from acapella_testing.processes import running

ACAPELLA = Path(sys.executable).with_name("acapella")


def run_command(module: ModuleType, *words: object) -> int:
    """Run the command of a module with these arguments in this process; return its exit code."""
    return module.run(module.register_parser(argparse.ArgumentParser().add_subparsers()).parse_args([*map(str, words)]))


def check_c_tests(*names: str) -> None:
    """Run tests of the C programs with the sanitizers; check that each of them passes."""
    done = c_programs.run_tests(*names)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [name for name in names if f"test_{name}: ok" not in done.stdout] == []


@contextlib.contextmanager
def monitors(prefix: tuple[str, ...], *arguments: list, **options) -> Iterator[list[subprocess.Popen]]:
    """Run an `acapella monitor` for each list of arguments, after a command prefix, until the end of the block.

    Afterwards, each process has the attributes ``output`` and ``messages``. ``options``: those of subprocess.Popen.
    """
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    with contextlib.ExitStack() as started:
        argvs = [[*map(str, (*prefix, ACAPELLA, "monitor", *words))] for words in arguments]
        processes = [started.enter_context(running(argv, **pipes)) for argv in argvs]
        for process in processes:
            assert "listening on " in process.stderr.readline()
        yield processes
        for process in processes:
            process.send_signal(signal.SIGINT)  # packets that arrived before it are counted
            process.output, process.messages = process.communicate(timeout=120)
            assert process.returncode == 0, process.messages
