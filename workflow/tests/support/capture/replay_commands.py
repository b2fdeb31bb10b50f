"""`acapella replay` in this process or another one, in the namespace of a command prefix (veth.namespace)."""

import contextlib
import ctypes
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from acapella_testing.capture.replay_agents import TIMEOUT_S

from acapella.cli.main import main

ENTRY = "import sys; from acapella.cli.entry import main; sys.exit(main())"
LIBC = ctypes.CDLL(None, use_errno=True)
Prefix = tuple[str, ...]


@contextlib.contextmanager
def inside(prefix: Prefix) -> Iterator[None]:
    """Move this thread to the network namespace of a prefix until the end of the block."""
    if not prefix:
        yield
        return
    with Path("/proc/thread-self/ns/net").open("rb") as own, Path(prefix[1].removeprefix("--net=")).open("rb") as other:
        assert LIBC.setns(other.fileno(), 0) == 0, os.strerror(ctypes.get_errno())
        try:
            yield
        finally:
            LIBC.setns(own.fileno(), 0)


def replay(*arguments: object, prefix: Prefix = ()) -> subprocess.CompletedProcess:
    """Run the command in this process, which is faster than in another one."""
    out, errors = io.StringIO(), io.StringIO()
    with inside(prefix), contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            code = main(["replay", *map(str, arguments)])
        except SystemExit as ended:  # raised by the argument parser
            code = ended.code
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), errors.getvalue())


def started(*arguments: object, prefix: Prefix = ()) -> subprocess.Popen:
    """Start the command in another process."""
    argv = [*prefix, sys.executable, "-c", ENTRY, "replay", *map(str, arguments)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@contextlib.contextmanager
def agent(*arguments: object, prefix: Prefix = ()) -> Iterator[tuple[subprocess.Popen, str]]:
    """Run a replayer that listens on loopback; yield its process and its address."""
    with started(*arguments, "--listen", "127.0.0.1:0", prefix=prefix) as process:
        try:
            yield process, next(filter(None, (re.search(r"listening on (\S+)$", line) for line in process.stderr)))[1]
        finally:
            process.terminate()
            process.communicate(timeout=TIMEOUT_S)
