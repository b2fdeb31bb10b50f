"""Ends child processes of a program whose signal handlers raise exceptions."""

import contextlib
import os
import subprocess


def kill_and_reap(process: subprocess.Popen) -> None:
    """Kill a child process, if it is still running, and wait for its end.

    `Popen.wait` is not used: if a signal handler raised an exception within `Popen.poll`, Popen's lock may still be
    held, and `wait` would never return. In this case the child remains a zombie until this process ends.
    """
    process.kill()
    if process.returncode is None:
        with contextlib.suppress(ChildProcessError):  # poll() had reaped it before the exception
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        process.poll()
