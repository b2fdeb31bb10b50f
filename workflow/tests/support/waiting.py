"""Wait for events in other threads and processes."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

TIMEOUT_S = 300  # reached only if something hangs
Value = TypeVar("Value")


def wait_until(
    condition: Callable[[], Value], what: object = "timeout", *, running: subprocess.Popen | None = None
) -> Value:
    """Return the first true value of a condition. Fails after TIMEOUT_S, and if process ``running`` ends first."""
    end = time.monotonic() + TIMEOUT_S
    while not (value := condition()):
        assert time.monotonic() < end, what
        assert running is None or running.poll() is None, what
        time.sleep(0.01)
    return value


@contextlib.contextmanager
def in_background(*functions: Callable[[], object]) -> Iterator[None]:
    """Call each function in a separate thread during the block; wait for all of them at its end."""
    threads = [threading.Thread(target=function, daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join(TIMEOUT_S)


def interrupt_when(
    condition: Callable[[], object], number: signal.Signals = signal.SIGINT
) -> contextlib.AbstractContextManager[None]:
    """Send a signal to this process, by default SIGINT, once a condition holds during the block."""

    def interrupt() -> None:
        wait_until(condition)
        os.kill(os.getpid(), number)

    return in_background(interrupt)
